"""A snapshot as plain JSON values and back, so that any decision can be replayed."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

from scheduler.model import Snapshot

FORMAT: Final = 1
_Read: TypeAlias = Callable[[Any], Any]


def dump(snapshot: Snapshot) -> dict[str, Any]:
    """Everything in the snapshot, as values that ``json.dumps`` takes; rows keep their order, sets are sorted."""
    return {"format": FORMAT, **_plain(snapshot)}


def load(data: Mapping[str, Any]) -> Snapshot:
    """The snapshot that `dump` was given. Fields missing in an older dump take their defaults.

    Raises ValueError for another format, TypeError for a field that this version does not know or cannot do without.
    """
    if data.get("format") != FORMAT:
        raise ValueError(f"not a snapshot of format {FORMAT}: {data.get('format')!r}")
    snapshot: Snapshot = _reader(Snapshot)({name: value for name, value in data.items() if name != "format"})
    return snapshot


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, frozenset):
        return sorted(_plain(one) for one in value)
    return {name: _plain(getattr(value, name)) for name in _names(value.__class__)}


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


@cache
def _reader(kind: Any) -> _Read:
    """What turns plain values into such a value: a dataclass of the model, a row or set of them, or a scalar."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (inner,) = (_reader(one) for one in arguments if one is not NoneType)
        return lambda value: None if value is None else inner(value)
    if origin in (tuple, frozenset):
        return _collection_reader(origin, _reader(arguments[0]))
    if is_dataclass(kind) and isinstance(kind, type):
        return _object_reader(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return lambda value: value


def _collection_reader(kind: type, read: _Read) -> _Read:
    return lambda values: kind(map(read, values))


def _object_reader(kind: type) -> _Read:
    readers = {name: _reader(hint) for name, hint in get_type_hints(kind).items() if name in _names(kind)}

    def read(row: Mapping[str, Any]) -> Any:
        if unknown := sorted(row.keys() - readers.keys()):
            raise TypeError(f"{kind.__name__} has no field {unknown[0]!r}")
        return kind(**{name: readers[name](value) for name, value in row.items()})

    return read
