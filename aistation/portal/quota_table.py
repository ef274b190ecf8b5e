"""A group's quotas as one table a place: the group and its people as rows, what is limited as columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from aistation.fleet.selectors import list_pools
from aistation.portal import units
from aistation.quotas.selectors import (
    COUNT_NAMES,
    GUARANTEED_NAMES,
    QUANTITY_NAMES,
    Quantity,
    QuotaRow,
    member_quota_rows,
    quota_rows,
)
from aistation.tenancy.policy import Action, Actor, allows
from aistation.tenancy.selectors import list_members

if TYPE_CHECKING:
    from aistation.tenancy.models import Group


@dataclass(frozen=True, slots=True)
class Column:
    """A booked quantity, whose inputs are ``<quantity>_limit`` and perhaps ``_guaranteed``; a count; or the weight."""

    name: str
    label: str | Promise
    unit: str  # how its numbers are written: cards, cores, memory, count, hours, priority, weight

    @property
    def is_quantity(self) -> bool:
        return self.name in QUANTITY_NAMES

    @property
    def inputs(self) -> tuple[str, ...]:
        if not self.is_quantity:
            return (self.name,)
        limit = f"{self.name}_limit"
        return (f"{self.name}_guaranteed", limit) if self.name in GUARANTEED_NAMES else (limit,)


WEIGHT: Final = "weight"
COLUMNS: Final = (
    Column("gpu_milli", gettext_lazy("GPU (cards)"), "cards"),
    Column("cpu_milli", gettext_lazy("CPU (cores)"), "cores"),
    Column("memory_mib", gettext_lazy("Memory (GiB)"), "memory"),
    Column("environments", gettext_lazy("Environments"), "count"),
    Column("running_jobs", gettext_lazy("Running jobs"), "count"),
    Column("max_queued_jobs", gettext_lazy("Queued jobs"), "count"),
    Column("max_environment_s", gettext_lazy("Environment hours"), "hours"),
    Column("max_priority", gettext_lazy("Top priority"), "priority"),
    Column(WEIGHT, gettext_lazy("Weight"), "weight"),
)
INPUTS: Final = {name: column.unit for column in COLUMNS for name in column.inputs}
"""Every settable number of a scope, by its column in the table of scopes, with how it is written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One scope: the group (``user`` None) or a person in it, in one pool or over all (``pool`` None)."""

    row: QuotaRow
    user_id: int | None
    may_set: bool
    is_member: bool = True

    @property
    def key(self) -> str:
        """Names its inputs. Names of people and pools hold neither sign."""
        return f"{self.row.user or '*'}/{self.row.pool or '*'}"

    @property
    def has_weight(self) -> bool:
        """Groups compete with each other, and in one pool."""
        return self.row.user is None and self.row.pool is not None

    @property
    def numbers(self) -> dict[str, int | None]:
        """As `quotas.services.numbers`, by input."""
        found: dict[str, int | None] = {name: getattr(self.row, name) for name in (*COUNT_NAMES, WEIGHT)}
        for name, quantity in self.row.quantities.items():
            found[f"{name}_limit"] = quantity.limit
            if name in GUARANTEED_NAMES:
                found[f"{name}_guaranteed"] = quantity.guaranteed or 0
        return found


@dataclass(frozen=True, slots=True)
class Place:
    """``pool`` None: over all pools."""

    pool: str | None
    entries: Sequence[Entry]


def places_of(actor: Actor, group: "Group") -> list[Place]:
    """All pools first, then each pool by name; the group first, then its people by name. A fixed number of queries."""
    names = [None, *(pool.name for pool in list_pools(actor))]
    ids = dict(list_members(group.pk).values_list("user__username", "user_id"))
    sets_group = allows(actor, Action.SET_GROUP_QUOTAS, group_id=group.pk)
    sets_users = allows(actor, Action.SET_USER_QUOTAS, group_id=group.pk)
    own = {row.pool: row for row in quota_rows(group)}
    people = {user: {row.pool: row for row in rows} for user, rows in member_quota_rows(group).items()}
    places = []
    for name in names:
        entries = [Entry(own.get(name) or _empty(group, None, name), None, sets_group)]
        for user, rows in people.items():
            is_member = user in ids
            if is_member or name in rows:
                row = rows.get(name) or _empty(group, user, name)
                entries.append(Entry(row, ids.get(user), sets_users and is_member, is_member))
        places.append(Place(name, entries))
    return places


def _empty(group: "Group", user: str | None, pool: str | None) -> QuotaRow:
    """A scope that nobody has set or used."""
    names = [column.name for column in COLUMNS if column.is_quantity]
    quantities = {name: Quantity(guaranteed=0 if name in GUARANTEED_NAMES else None) for name in names}
    return QuotaRow(group.name, user, pool, quantities)


def used_of(row: QuotaRow, column: Column) -> tuple[int, int | None] | None:
    """What is used now and the limit; None: nothing is counted for this column."""
    if column.is_quantity:
        quantity = row.quantities[column.name]
        return quantity.used, quantity.limit
    return (row.queued_jobs, row.max_queued_jobs) if column.name == "max_queued_jobs" else None


def written(number: int, unit: str) -> str:
    """A number of a column for people to read; `forms.quotas` writes what they may change."""
    if unit in ("cards", "cores"):
        return units.thousandths(number)
    if unit == "memory":
        return units.thousandths(number * 1000 // 1024) if number % 1024 else str(number // 1024)
    if unit == "hours":
        return units.duration(number)
    return str(number)


def use_text(used: int, limit: int | None, unit: str) -> str:
    """ "3 of 6", "6 of 4, over quota", "3 used" """
    if limit is None:
        return _("%(used)s used") % {"used": written(used, unit)}
    text = _("%(used)s of %(limit)s") % {"used": written(used, unit), "limit": written(limit, unit)}
    return text + _(", over quota") if used > limit else text


@dataclass(frozen=True, slots=True)
class GridCell:
    used: int
    limit: int | None
    guaranteed: int
    text: str


@dataclass(frozen=True, slots=True)
class GridRow:
    group: str
    cells: Sequence[GridCell | None]


def grid(groups: Sequence[str], pools: Sequence[str], rows: Sequence[QuotaRow]) -> list[GridRow]:
    """All groups x (all pools, then each pool): cards. None: neither limited nor used there."""
    found: Mapping[tuple[str, str | None], QuotaRow] = {(row.group, row.pool): row for row in rows}
    return [GridRow(name, [_cell(found.get((name, pool))) for pool in (None, *pools)]) for name in groups]


def _cell(row: QuotaRow | None) -> GridCell | None:
    if row is None:
        return None
    quantity = row.quantities["gpu_milli"]
    if quantity.limit is None and not quantity.used and not quantity.guaranteed:
        return None
    text = use_text(quantity.used, quantity.limit, "cards")
    return GridCell(quantity.used, quantity.limit, quantity.guaranteed or 0, text)
