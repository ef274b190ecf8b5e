"""Writes of lending rules and warm reserves: one function, one transaction, one audit event."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar
from zoneinfo import available_timezones

from django.db import IntegrityError, transaction

from aistation.audit.services import record
from aistation.core.dispatch import changed_on_commit, send_once_on_commit
from aistation.core.errors import ConflictError, FieldError, InvalidInputError, NotFoundError
from aistation.core.validation import name_error
from aistation.fleet.models import LendingRule, Pool, Reserve, TakeBack
from aistation.tenancy.policy import Actor
from scheduler.model import Kind
from scheduler.windows import WEEK_MIN

MOST_WINDOWS: Final = 64
LENDING_FIELDS: Final = (
    "windows", "time_zone", "keep_free_slices", "keep_free_cards", "notice_s", "take_back", "enabled",
)  # fmt: skip
RESERVE_FIELDS: Final = ("slices", "windows", "time_zone")
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "keep_free_slices": (0, 1 << 20),
    "keep_free_cards": (0, 1 << 16),
    "notice_s": (0, 24 * 3600),
    "slices": (1, 1 << 20),
}
Row = TypeVar("Row", LendingRule, Reserve)


@transaction.atomic
def create_lending(
    *, name: str, lender: Pool, borrower: Pool, values: Mapping[str, Any], now: datetime, actor: Actor | None
) -> LendingRule:
    """Let ``borrower``'s queue use idle cards of ``lender``. ``values``: `LENDING_FIELDS`.

    Raises InvalidInputError, ConflictError (the name is taken).
    """
    rule = LendingRule(name=name, lender=lender, borrower=borrower, created_at=now, **values)
    errors = _errors(rule, LENDING_FIELDS)
    if lender == borrower:
        errors.append(FieldError("borrower", "same_pool", "A pool lends to another pool."))
    if Kind.JOB not in borrower.kinds:
        errors.append(FieldError("borrower", "takes_no_jobs", f"Pool {borrower.name} takes no jobs."))
    _insert(rule, errors)
    told = {**_values(rule, LENDING_FIELDS), "lender": lender.name, "borrower": borrower.name}
    record(actor, now, "lending.create", "lending", name, after=told)
    return rule


@transaction.atomic
def change_lending(*, name: str, changes: Mapping[str, Any], now: datetime, actor: Actor) -> LendingRule:
    """Set the given ones of `LENDING_FIELDS`. Raises NotFoundError, InvalidInputError."""
    return _change(LendingRule, name, LENDING_FIELDS, changes, now, actor)


@transaction.atomic
def delete_lending(*, name: str, now: datetime, actor: Actor) -> None:
    """End a rule. What runs on lent cards is asked to leave as after a window."""
    _delete(LendingRule, name, LENDING_FIELDS, now, actor)


@transaction.atomic
def create_reserve(*, name: str, pool: Pool, values: Mapping[str, Any], now: datetime, actor: Actor | None) -> Reserve:
    """Keep room for environments in ``pool``. ``values``: `RESERVE_FIELDS`."""
    reserve = Reserve(name=name, pool=pool, created_at=now, **values)
    errors = _errors(reserve, RESERVE_FIELDS)
    if Kind.ENVIRONMENT not in pool.kinds:
        errors.append(FieldError("pool", "takes_no_environments", f"Pool {pool.name} takes no environments."))
    _insert(reserve, errors)
    record(actor, now, "reserve.create", "reserve", name, after={**_values(reserve, RESERVE_FIELDS), "pool": pool.name})
    return reserve


@transaction.atomic
def change_reserve(*, name: str, changes: Mapping[str, Any], now: datetime, actor: Actor) -> Reserve:
    """Set the given ones of `RESERVE_FIELDS`. Raises NotFoundError, InvalidInputError."""
    return _change(Reserve, name, RESERVE_FIELDS, changes, now, actor)


@transaction.atomic
def delete_reserve(*, name: str, now: datetime, actor: Actor) -> None:
    _delete(Reserve, name, RESERVE_FIELDS, now, actor)


def _insert(row: LendingRule | Reserve, errors: Sequence[FieldError]) -> None:
    found = [error for error in (name_error("name", row.name), *errors) if error]
    if found:
        raise InvalidInputError("This cannot be created.", errors=found)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        message = f"The name {row.name} is taken."
        raise ConflictError(message, errors=[FieldError("name", "taken", message)]) from error
    _follow()


def _change(
    table: type[Row], name: str, fields: Sequence[str], changes: Mapping[str, Any], now: datetime, actor: Actor
) -> Row:
    row = table.objects.select_for_update(no_key=True).filter(name=name).first()
    if row is None:
        raise NotFoundError
    before = _values(row, fields)
    for field in fields:
        if field in changes:
            setattr(row, field, changes[field])
    errors = _errors(row, fields)
    if errors:
        raise InvalidInputError("This cannot be changed so.", errors=errors)
    after = _values(row, fields)
    changed = [field for field in fields if before[field] != after[field]]
    if changed:
        row.save(update_fields=changed)
        old, new = ({field: values[field] for field in changed} for values in (before, after))
        record(actor, now, f"{_noun(row)}.change", _noun(row), name, before=old, after=new)
        _follow()
    return row


def _delete(table: type[Row], name: str, fields: Sequence[str], now: datetime, actor: Actor) -> None:
    row = table.objects.select_for_update().filter(name=name).first()
    if row is None:
        raise NotFoundError
    record(actor, now, f"{_noun(row)}.delete", _noun(row), name, before=_values(row, fields))
    row.delete()
    _follow()


def _noun(row: LendingRule | Reserve) -> str:
    return "lending" if isinstance(row, LendingRule) else "reserve"


def _follow() -> None:
    send_once_on_commit("scheduling.decide")
    changed_on_commit("cluster", "queue")


def _errors(row: LendingRule | Reserve, fields: Sequence[str]) -> list[FieldError]:
    checks: Mapping[str, Callable[[Any], str]] = {
        "windows": _bad_windows,
        "time_zone": _bad_zone,
        "take_back": lambda value: "" if value in TakeBack.values else f"Choose one of {', '.join(TakeBack.values)}.",
    }
    errors: list[FieldError] = []
    for field in fields:
        value = getattr(row, field)
        if field in _RANGES:
            least, most = _RANGES[field]
            problem = "" if least <= value <= most else f"Choose {least} to {most}."
        else:
            problem = checks.get(field, lambda _: "")(value)
        if problem:
            errors.append(FieldError(field, "invalid", problem))
    return errors


def _bad_windows(windows: Any) -> str:
    if len(windows) > MOST_WINDOWS:
        return f"At most {MOST_WINDOWS} windows."
    for start, end in windows:
        if not (0 <= start < WEEK_MIN and 0 <= end <= WEEK_MIN):
            return "A window begins and ends within the week."
    return ""


def _bad_zone(name: str) -> str:
    return "" if name in available_timezones() else "Give the name of a time zone, such as Europe/Berlin."


def _values(row: LendingRule | Reserve, fields: Sequence[str]) -> dict[str, Any]:
    return {field: getattr(row, field) for field in fields}
