"""What is usually asked of each pool, learned from what is submitted and what ends: the scheduler packs by it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from aistation.fleet.models import Pool
from aistation.scheduling.models import TaskMix
from aistation.workloads.lifecycle import ENDS, Event
from aistation.workloads.models import Transition
from scheduler.mix import next_refresh, observe
from scheduler.model import Demand, Mix, Resources

_AT_ONCE: Final = 5000
_RESOURCES: Final = tuple(Resources.__dataclass_fields__)
_cached: dict[int, tuple[int, Mix]] = {}


def learn(now: datetime) -> None:
    """Take in what has happened since the last call. Losing or repeating a little does no harm: it is a habit."""
    for pool in Pool.objects.order_by("pk"):
        with transaction.atomic():
            row, _ = TaskMix.objects.select_for_update().get_or_create(pool=pool)
            events = _events_since(row)
            if events:
                _take_in(row, pool.name, events)


def learned_mixes() -> tuple[Mix, ...]:
    """The mix in use of each pool, by its name. The same object until there is a new one: placing remembers what it
    has worked out for it."""
    found = []
    for pool_id, name, revision in TaskMix.objects.exclude(revision=0).values_list("pool_id", "pool__name", "revision"):
        known = _cached.get(pool_id)
        if known is None or known[0] != revision or known[1].pool_id != name:
            used = TaskMix.objects.values_list("used", flat=True).get(pool_id=pool_id)
            known = _cached[pool_id] = revision, _mix(name, used)
        found.append(known[1])
    return tuple(sorted(found, key=lambda mix: mix.pool_id))


def _events_since(row: TaskMix) -> Sequence[Mapping[str, Any]]:
    rows = Transition.objects.filter(
        pk__gt=row.last_transition, workload__pool_id=row.pool_id, event__in=[Event.SUBMIT, *ENDS]
    )
    columns = ("pk", "event", "workload__tasks_count", *(f"workload__{name}" for name in _RESOURCES))
    return list(rows.order_by("pk").values(*columns)[:_AT_ONCE])


def _take_in(row: TaskMix, name: str, events: Sequence[Mapping[str, Any]]) -> None:
    submitted = [
        (Resources(*(event[f"workload__{field}"] for field in _RESOURCES)), event["workload__tasks_count"])
        for event in events
        if event["event"] == Event.SUBMIT
    ]
    ended = sum(event["workload__tasks_count"] for event in events if event["event"] != Event.SUBMIT)
    row.observed = _plain(observe(_mix(name, row.observed), submitted, ended=ended))
    row.seen += sum(tasks for _, tasks in submitted)
    row.last_transition = events[-1]["pk"]
    if row.seen >= row.due:
        row.used, row.revision, row.due = row.observed, row.revision + 1, next_refresh(row.seen)
    row.save()


def _mix(name: str, stored: Mapping[str, Any]) -> Mix:
    demands = tuple(Demand(Resources(*needs), weight) for needs, weight in stored.get("demands", ()))
    return Mix(name, demands, stored.get("ended", 0))


def _plain(mix: Mix) -> dict[str, Any]:
    demands = [[[getattr(one.resources, field) for field in _RESOURCES], one.weight] for one in mix.demands]
    return {"demands": demands, "ended": mix.ended}
