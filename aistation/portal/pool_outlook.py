"""A pool in the next 24 hours: which of its cards are in use until when, what is lent, what is kept for whom."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from aistation.fleet.selectors import list_devices, list_lending
from aistation.portal.charts import Band, Chart, Series, Tick, levels, share, stacked
from aistation.portal.hours import spans_within
from aistation.scheduling.snapshot import microseconds, running_work
from aistation.tenancy.policy import Actor
from aistation.workloads.occupancy import KeptRoom, kept_rooms
from scheduler.model import Running

if TYPE_CHECKING:
    from aistation.fleet.models import LendingRule, Pool

STEP: Final = timedelta(minutes=15)
STEPS: Final = 96
_STEP_US: Final = STEP // timedelta(microseconds=1)
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Hour:
    """A row of the table beneath the chart: the cards at this instant."""

    at: datetime
    own: int
    lent: int
    kept: int
    is_lending: bool


@dataclass(frozen=True, slots=True)
class Outlook:
    chart: Chart
    hours: Sequence[Hour]
    kept: Sequence[KeptRoom]
    cards: int


def outlook_of(actor: Actor, pool: "Pool", at: datetime) -> Outlook:
    """What is known now: running work leaves at its time limit at the latest, what has none stays."""
    kept = [room for room in kept_rooms(actor) if room.pool == pool.name]
    rules = [rule for rule in list_lending(actor) if rule.enabled and rule.lender_id == pool.pk]
    ids = {card.uuid for card in list_devices(actor) if card.node.pool_id == pool.pk and card.usable}
    own, lent = _in_use(running_work(at), pool.name, ids, at)
    waiting = _kept_cards(kept, at)
    spans = _lending_spans(rules, at)
    chart = Chart(
        label=_label(pool.name, own, lent, len(ids)),
        areas=stacked(
            (
                Series("own", _("in use by the pool's own work"), own),
                Series("lent", _("lent"), lent),
                Series("kept", _("kept for waiting work"), waiting),
            ),
            len(ids),
        ),
        bands=[_band(start, end, at) for start, end in spans],
        band_label=_("lends"),
        ticks=_ticks(at),
        levels=levels(len(ids)),
    )
    hours = [
        Hour(instant, own[step], lent[step], waiting[step], any(start <= instant < end for start, end in spans))
        for step in range(0, STEPS, 4)
        for instant in [at + step * STEP]
    ]
    return Outlook(chart, hours, kept, len(ids))


def _in_use(works: Iterable[Running], pool: str, ids: set[str], at: datetime) -> tuple[list[int], list[int]]:
    """Cards that carry the pool's own work, and those that carry only lent work, at each step."""
    until: dict[bool, dict[str, int]] = {True: {}, False: {}}  # by whether it is lent: card to its last step
    for work in works:
        endless = work.ends_at_us is None and not work.is_leaving
        steps = STEPS if endless else _steps_until(work.ends_at_us or 0, at)
        held = until[work.pool_id != pool]
        for share_ in (share_ for task in work.tasks for share_ in task.shares if share_.device_id in ids):
            held[share_.device_id] = max(steps, held.get(share_.device_id, 0))
    own, lent = _counts(until[False].values(), STEPS), [0] * STEPS
    for card, last in until[True].items():
        for step in range(until[False].get(card, 0), last):
            lent[step] += 1
    return own, lent


def _steps_until(us: int, at: datetime) -> int:
    """In how many steps from now on something that ends then still is; what is late leaves any moment."""
    return max(1, min(STEPS, -(-(us - microseconds(at)) // _STEP_US)))


def _counts(lasts: Iterable[int], steps: int) -> list[int]:
    counts = [0] * steps
    for last in lasts:
        for step in range(last):
            counts[step] += 1
    return counts


def _kept_cards(rooms: Iterable[KeptRoom], at: datetime) -> list[int]:
    """From its start on, for as long as the work may run."""
    counts = [0] * STEPS
    for room in rooms:
        if room.starts_at is None:
            continue
        first = max(0, (room.starts_at - at) // STEP)
        last = STEPS if room.time_limit_s is None else first + -(-room.time_limit_s // STEP.seconds)
        for step in range(first, min(STEPS, last)):
            counts[step] += room.cards
    return counts


def _lending_spans(rules: "Iterable[LendingRule]", at: datetime) -> list[tuple[datetime, datetime]]:
    """Of all rules, joined where they overlap."""
    joined: list[tuple[datetime, datetime]] = []
    spans = (span for rule in rules for span in spans_within(rule.windows, rule.time_zone, at, at + STEPS * STEP))
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _band(start: datetime, end: datetime, at: datetime) -> Band:
    x, right = (share((edge - at) // timedelta(seconds=1), STEPS * STEP.seconds) for edge in (start, end))
    return Band(_("lends"), x, right - x)


def _ticks(at: datetime) -> list[Tick]:
    first = at.replace(minute=0, second=0, microsecond=0) + _HOUR
    instants = [first + hours * _HOUR for hours in range(24) if (first + hours * _HOUR).hour % 3 == 0]
    whole = STEPS * STEP.seconds
    return [Tick(share((one - at) // timedelta(seconds=1), whole), f"{one:%H:%M}", one) for one in instants]


def _label(pool: str, own: Sequence[int], lent: Sequence[int], cards: int) -> str:
    numbers = {"pool": pool, "used": own[0] + lent[0], "cards": cards, "later": own[-1] + lent[-1]}
    text = ngettext(
        "Pool %(pool)s in the next 24 hours: %(used)s of %(cards)s card in use now, %(later)s at the end.",
        "Pool %(pool)s in the next 24 hours: %(used)s of %(cards)s cards in use now, %(later)s at the end.",
        cards,
    )
    return text % numbers
