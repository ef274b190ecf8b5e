"""Everything a decision depends on, read in one consistent view of the database.

Ids in a snapshot are names, so that a dump reads well: pools, nodes, groups and users by name, cards by UUID,
workloads by uid.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from django.db import connection, transaction

from aistation.fleet.selectors import scheduler_lending, scheduler_nodes, scheduler_pools, scheduler_reserves
from aistation.quotas.selectors import scheduler_scopes
from aistation.scheduling.mixes import learned_mixes
from aistation.workloads.lifecycle import WANTED, State
from aistation.workloads.models import Workload
from scheduler.model import Kind, Request, Resources, Running, Share, Snapshot, TaskPlacement

_RESOURCES = ("cpu_milli", "memory_mib", "gpus", "gpu_slices", "gpu_memory_mib", "gpu_compute_milli", "gpu_model")
_COLUMNS = (
    "uid", "kind", "group__name", "user__username", "pool__name", "priority", "queued_at", "tasks_count", "state",
    "preemptible", "time_limit_s", "same_node", "spread", "node_labels", "promised_start",
    *_RESOURCES,
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
            running=running_work(now),
            lending=scheduler_lending(),
            reserves=scheduler_reserves(),
            mixes=learned_mixes(),
        )


def pending_requests() -> tuple[Request, ...]:
    """What waits, held ones too."""
    rows = Workload.objects.filter(state__in=[State.QUEUED, State.HELD]).order_by("pk")
    return tuple(_request(row) for row in rows.values_list(*_COLUMNS))


def _request(row: tuple) -> Request:  # type: ignore[type-arg]
    uid, kind, group, user, pool, priority, queued_at, tasks, state, *rest = row
    preemptible, time_limit_s, same_node, spread, labels, promised, *resources = rest
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
        preemptible=preemptible,
        time_limit_s=time_limit_s,
        same_node=same_node,
        spread=spread,
        node_labels=frozenset(labels),
        promised_us=microseconds(promised) if promised else None,
    )


_RUNNING: Final = f"""
    SELECT workload.uid, workload.kind, groups.name, users.username, pool.name, workload.priority,
           workload.queued_at, workload.started_at, workload.time_limit_s, workload.preemptible, workload.state,
           attempt.number = workload.attempt, attempt.saved_at, allocation.card_milli, task.rank, node.name,
           (SELECT array_agg(ARRAY[device.uuid, share.memory_mib::text, share.compute_milli::text, share.whole::text]
                             ORDER BY device.uuid)
            FROM workloads_deviceshare share JOIN fleet_device device ON device.id = share.device_id
            WHERE share.allocation_id = allocation.id),
           {", ".join(f"workload.{name}" for name in _RESOURCES)}
    FROM workloads_allocation allocation
    JOIN workloads_task task ON task.id = allocation.task_id
    JOIN workloads_attempt attempt ON attempt.id = task.attempt_id
    JOIN workloads_workload workload ON workload.id = attempt.workload_id
    JOIN fleet_node node ON node.id = allocation.node_id
    JOIN fleet_pool pool ON pool.id = workload.pool_id
    JOIN tenancy_group groups ON groups.id = workload.group_id
    JOIN tenancy_user users ON users.id = workload.user_id
    WHERE allocation.released_at IS NULL
    ORDER BY workload.id, task.rank
"""  # noqa: S608 - constants of this module


def running_work(now: datetime) -> tuple[Running, ...]:
    """What holds resources, in one query: with the ORM this was a third of a cycle. What is on its way to a start is
    taken to begin ``now``."""
    with connection.cursor() as cursor:
        cursor.execute(_RUNNING)
        rows = cursor.fetchall()
    return tuple(_running(list(own), now) for _, own in groupby(rows, key=itemgetter(0)))


def _running(rows: Sequence[tuple[Any, ...]], now: datetime) -> Running:
    """Of the rows of one workload, a task each."""
    first = rows[0]
    uid, kind, group, user, pool, priority, queued_at, started_at, limit = first[:9]
    preemptible, state, is_latest, saved_at = first[9:13]
    is_present = is_latest and State(state) in WANTED
    started_at = started_at if is_present else None
    return Running(
        id=uid,
        kind=Kind(kind),
        group_id=group,
        user_id=user,
        pool_id=pool,
        resources=Resources(*first[17:]),
        tasks=tuple(TaskPlacement(row[14], row[15], tuple(map(_share, row[16] or ()))) for row in rows),
        priority=priority,
        queued_at_us=microseconds(queued_at),
        started_at_us=microseconds(started_at) if started_at else None,
        ends_at_us=microseconds((started_at or now) + timedelta(seconds=limit)) if is_present and limit else None,
        saved_at_us=microseconds(saved_at) if saved_at else None,
        preemptible=preemptible and kind == Kind.JOB,
        is_leaving=not is_present,
        card_milli=sum(row[13] for row in rows),
    )


def _share(texts: Sequence[str]) -> Share:
    uuid, memory_mib, milli, whole = texts
    return Share(uuid, int(memory_mib), int(milli), whole == "true")


def instant(us: int | None) -> datetime | None:
    """Of microseconds since the epoch, to the full minute after it: an estimate pretends no more."""
    return None if us is None else datetime.fromtimestamp(-(-us // 60_000_000) * 60, UTC)


def microseconds(instant: datetime) -> int:
    """Since the epoch, exactly: no float on the way."""
    return int(instant.timestamp()) * 1_000_000 + instant.microsecond
