"""Everything a decision depends on, read in one consistent view of the database.

Ids in a snapshot are names, so that a dump reads well: pools, nodes, groups and users by name, cards by UUID,
workloads by uid.
"""

from datetime import datetime

from django.db import connection, transaction

from aistation.fleet.selectors import scheduler_nodes, scheduler_pools
from aistation.quotas.selectors import scheduler_scopes
from aistation.workloads.lifecycle import State
from aistation.workloads.models import Workload
from scheduler.model import Kind, Request, Resources, Snapshot

_COLUMNS = (
    "uid", "kind", "group__name", "user__username", "pool__name", "priority", "queued_at", "tasks_count", "state",
    "cpu_milli", "memory_mib", "gpus", "gpu_slices", "gpu_memory_mib", "gpu_compute_milli", "gpu_model",
)  # fmt: skip


def take_snapshot(*, epoch: int, now: datetime) -> Snapshot:
    """The fleet, the quotas and the queue as of one instant."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return Snapshot(
            version=epoch,
            now_us=microseconds(now),
            pools=scheduler_pools(),
            nodes=scheduler_nodes(),
            scopes=scheduler_scopes(),
            pending=pending_requests(),
        )


def pending_requests() -> tuple[Request, ...]:
    """What waits, held ones too."""
    rows = Workload.objects.filter(state__in=[State.QUEUED, State.HELD]).order_by("pk")
    return tuple(_request(row) for row in rows.values_list(*_COLUMNS))


def _request(row: tuple) -> Request:  # type: ignore[type-arg]
    uid, kind, group, user, pool, priority, queued_at, tasks, state, *resources = row
    return Request(
        id=uid,
        kind=Kind(kind),
        group_id=group,
        user_id=user,
        pool_id=pool,
        resources=Resources(*resources),
        priority=priority,
        queued_at_us=microseconds(queued_at),
        tasks=tasks,
        held=state == State.HELD,
    )


def microseconds(instant: datetime) -> int:
    """Since the epoch, exactly: no float on the way."""
    return int(instant.timestamp()) * 1_000_000 + instant.microsecond
