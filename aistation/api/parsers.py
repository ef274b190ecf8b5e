"""JSON, read strictly: what two programs could read differently is refused."""

import json
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final, NoReturn

from django.conf import settings
from rest_framework.parsers import BaseParser

from aistation.api.errors import MalformedError, TooLargeError, UnsupportedMediaTypeError
from aistation.core.errors import FieldError, InvalidInputError

DEEPEST: Final = 32
_LONGEST_NUMBER: Final = 30
_HUGE: Final = 10**_LONGEST_NUMBER
"""Stands for every longer integer: beyond all ranges, so that its field can say so."""


class StrictJSONParser(BaseParser):
    """UTF-8 only; no NaN or Infinity, no key twice, at most 32 levels and the size that settings allow."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        _require_utf8(media_type or "")
        data = stream.read(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
        if len(data) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise TooLargeError(f"The body may have {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes at most.")
        return parse_json(data)


def parse_json(data: bytes) -> Any:
    """The value of a JSON text. Raises MalformedError, or InvalidInputError that names the field at fault."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError(f"The body is not UTF-8 (at byte {error.start}).") from error
    try:
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_int=_parse_int, object_pairs_hook=_object_without_doubles
        )
    except RecursionError as error:
        raise MalformedError(f"The body is nested deeper than {DEEPEST} levels.") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise MalformedError(f"The body is not JSON: {error.msg} at {place}.") from error
    _refuse_unstorable(value)
    return value


def _require_utf8(media_type: str) -> None:
    for parameter in media_type.lower().split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name == "charset" and value.strip('"') not in ("utf-8", "utf8"):
            raise UnsupportedMediaTypeError("JSON comes in UTF-8.")


def _parse_int(digits: str) -> int:
    if len(digits) <= _LONGEST_NUMBER:
        return int(digits)
    return -_HUGE if digits.startswith("-") else _HUGE


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedError(f"The body is not JSON: {name} is not a number.")


def _object_without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        error = FieldError(_printable(double), "duplicate_key", "The name is there twice in one object.")
        raise InvalidInputError("The body has a name twice.", errors=[error])
    return found


def _refuse_unstorable(value: object) -> None:
    """Refuse text that PostgreSQL or UTF-8 cannot hold, and too many levels. Without recursion."""
    waiting: list[tuple[str, int, object]] = [("", 1, value)]
    while waiting:
        path, depth, item = waiting.pop()
        if depth > DEEPEST:
            raise MalformedError(f"The body is nested deeper than {DEEPEST} levels.")
        if isinstance(item, str):
            _refuse_text(path, item)
        elif isinstance(item, Mapping):
            for name, part in item.items():
                inner = f"{path}.{_printable(name)}" if path else _printable(name)
                _refuse_text(inner, name)
                waiting.append((inner, depth + 1, part))
        elif isinstance(item, Sequence):
            waiting += [(f"{path}[{index}]", depth + 1, part) for index, part in enumerate(item)]


def _refuse_text(path: str, text: str) -> None:
    if "\x00" in text:
        error = FieldError(path, "nul", "Text cannot hold a NUL character.")
        raise InvalidInputError("The body has text that cannot be stored.", errors=[error])
    try:
        text.encode()
    except UnicodeEncodeError as error:
        fault = FieldError(path, "surrogate", "Text cannot hold half of a surrogate pair.")
        raise InvalidInputError("The body has text that cannot be stored.", errors=[fault]) from error


def _printable(name: str) -> str:
    """A name as part of a path in an answer: short, and without what JSON or a log could not show."""
    return name[:64].encode("ascii", "backslashreplace").decode()
