"""Everything a decision depends on, read in one consistent view of the database.

Ids in a snapshot are names, so that a dump reads well: pools, nodes, groups and users by name, cards by UUID,
workloads by uid.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from django.db.models import Prefetch

from aistation.fleet.selectors import scheduler_lending, scheduler_nodes, scheduler_pools, scheduler_reserves
from aistation.quotas.selectors import scheduler_scopes
from aistation.workloads.lifecycle import WANTED, State
from aistation.workloads.models import Allocation, DeviceShare, Workload
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
            running=running_work(),
            lending=scheduler_lending(),
            reserves=scheduler_reserves(),
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


def running_work() -> tuple[Running, ...]:
    """What holds resources. Four queries, whatever their number."""
    held = (
        Allocation.objects.filter(released_at=None)
        .select_related("task__attempt__workload__group", "task__attempt__workload__user")
        .select_related("task__attempt__workload__pool", "node")
        .prefetch_related(Prefetch("shares", DeviceShare.objects.select_related("device").order_by("device__uuid")))
        .order_by("task__attempt__workload_id", "task__rank")
    )
    by_workload: dict[int, list[Allocation]] = {}
    for allocation in held:
        by_workload.setdefault(allocation.task.attempt.workload_id, []).append(allocation)
    return tuple(_running(own) for _, own in sorted(by_workload.items()))


def _running(held: Sequence[Allocation]) -> Running:
    attempt = held[0].task.attempt
    workload = attempt.workload
    is_present = attempt.number == workload.attempt and State(workload.state) in WANTED
    started_at = workload.started_at if is_present else None
    limit = workload.time_limit_s
    ends_at = started_at + timedelta(seconds=limit) if started_at and limit else None
    return Running(
        id=workload.uid,
        kind=Kind(workload.kind),
        group_id=workload.group.name,
        user_id=workload.user.username,
        pool_id=workload.pool.name,
        resources=Resources(*(getattr(workload, name) for name in _RESOURCES)),
        tasks=tuple(
            TaskPlacement(
                one.task.rank,
                one.node.name,
                tuple(Share(s.device.uuid, s.memory_mib, s.compute_milli, s.whole) for s in one.shares.all()),
            )
            for one in held
        ),
        priority=workload.priority,
        queued_at_us=microseconds(workload.queued_at),
        started_at_us=microseconds(started_at) if started_at else None,
        ends_at_us=microseconds(ends_at) if ends_at else None,
        saved_at_us=microseconds(attempt.saved_at) if attempt.saved_at else None,
        preemptible=workload.preemptible and workload.kind == Kind.JOB,
        is_leaving=not is_present,
        card_milli=sum(one.card_milli for one in held),
    )


def instant(us: int | None) -> datetime | None:
    """Of microseconds since the epoch, to the full minute after it: an estimate pretends no more."""
    return None if us is None else datetime.fromtimestamp(-(-us // 60_000_000) * 60, UTC)


def microseconds(instant: datetime) -> int:
    """Since the epoch, exactly: no float on the way."""
    return int(instant.timestamp()) * 1_000_000 + instant.microsecond
