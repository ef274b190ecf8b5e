"""The first page: my things, my quota, what is free."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from aistation.fleet.selectors import PoolCapacity, list_capacity
from aistation.portal import units
from aistation.portal.listing import UNSHOWN, Row, rows_of
from aistation.portal.offer import free_text
from aistation.portal.pages import Request, show, signed_in
from aistation.portal.reasons import amount
from aistation.quotas.selectors import QuotaRow, own_rows
from aistation.tenancy.policy import Action, Actor, Role, allows
from aistation.workloads.lifecycle import HOLDING, WAITING, Kind
from aistation.workloads.selectors import list_workloads

SHOWN: Final = 10
_ORDER: Final = ("gpu_milli", "cpu_milli", "memory_mib", "environments", "running_jobs")


@dataclass(frozen=True, slots=True)
class Gauge:
    """One limited quantity as a bar. ``limit`` None: unlimited."""

    label: str
    used: int
    limit: int | None
    text: str


@dataclass(frozen=True, slots=True)
class QuotaCard:
    """What limits this person in one group: their own numbers and the group's, place by place."""

    title: str
    gauges: Sequence[Gauge]


@signed_in
@require_GET
def home(request: Request) -> HttpResponse:
    actor = request.actor
    environments = _own(actor, Kind.ENVIRONMENT)
    jobs = _own(actor, Kind.JOB)
    capacity = list_capacity(actor)
    context = {
        "environments": environments,
        "jobs": jobs,
        "quotas": [card for row in own_rows(actor) if (card := _quota_card(row)).gauges],
        "capacity": [(row, free_text(row), _taken_slices(row)) for row in capacity],
        "has_room": any(row.usable_nodes for row in capacity),
        "can_submit": any(role >= Role.MEMBER for role in actor.roles.values()) or actor.is_platform_admin,
        "manages_nodes": allows(actor, Action.MANAGE_NODES),
        "topics": f"user.{actor.user_id} queue cluster",
    }
    return show(request, "portal/home.html", context, partial="portal/_home.html")


def _own(actor: Actor, kind: Kind) -> list[Row]:
    """The newest that are not over; of environments also those that can start again."""
    rows = list_workloads(actor, kind).filter(user_id=actor.user_id)
    if kind is Kind.JOB:
        rows = rows.filter(state__in=[*HOLDING, *WAITING])
    return rows_of(actor, list(rows.defer(*UNSHOWN)[:SHOWN]))


def _taken_slices(row: PoolCapacity) -> tuple[int, int]:
    """Taken and usable, in slices where the cards are cut, else in cards."""
    if row.usable_slices:
        return row.usable_slices - row.free_slices, row.usable_slices
    return row.taken_cards, row.usable_cards


def _quota_card(row: QuotaRow) -> QuotaCard:
    names = {
        "gpu_milli": _("Cards"),
        "cpu_milli": _("CPU"),
        "memory_mib": _("Memory"),
        "environments": _("Environments"),
        "running_jobs": _("Running jobs"),
    }
    place = _("all pools") if row.pool is None else row.pool
    whose = _("you in %(group)s") if row.user else _("group %(group)s")
    gauges = []
    for name in _ORDER:
        quantity = row.quantities[name]
        if quantity.limit is None and not (name == "gpu_milli" and quantity.used):
            continue
        used = _used_text(name, quantity.used)
        if quantity.limit is None:
            text = _("%(used)s, no limit") % {"used": used}
        else:
            text = _("%(used)s of %(limit)s") % {"used": used, "limit": _limit_text(name, quantity.limit)}
        gauges.append(Gauge(names[name], quantity.used, quantity.limit, text))
    return QuotaCard(f"{whose % {'group': row.group}} · {place}", gauges)


def _limit_text(name: str, limit: int) -> str:
    """With the unit where the label does not say it."""
    if name == "memory_mib":
        return units.memory(limit)
    return amount(name, limit) if name in ("gpu_milli", "cpu_milli") else str(limit)


def _used_text(name: str, used: int) -> str:
    if name == "memory_mib":
        return units.memory(used)
    return units.thousandths(used) if name in ("gpu_milli", "cpu_milli") else str(used)
