"""Write a plan: every placement is checked again in the transaction that writes it."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import DataError, IntegrityError, transaction

from aistation.core.dispatch import changed_on_commit
from aistation.fleet.models import Device, Duty, LendingRule, Liveness, Node
from aistation.quotas import services as quotas
from aistation.quotas.models import QuotaScope
from aistation.scheduling.lease import assert_epoch
from aistation.scheduling.snapshot import instant
from aistation.workloads.allocations import Start, TaskTarget, place
from aistation.workloads.lifecycle import Reason, State
from aistation.workloads.models import QueueOrder, Workload
from aistation.workloads.services import MOVED, request_preempt
from scheduler.model import PendingReason, Placement, Plan, Preemption, Waiting

logger = logging.getLogger(__name__)
BATCH = 25  # placements a transaction: one commit for many, locks for a short time


@dataclass(frozen=True, slots=True)
class Applied:
    """``stale``: placements that no longer held when they were written; the next cycle tries them again."""

    placed: int
    stale: int


def apply_plan(plan: Plan, *, now: datetime) -> Applied:
    """Write the placements that still hold, then the reasons of what waits. Raises StaleEpochError."""
    placed = stale = 0
    for batch in _batches(plan.placements):
        good = _place_batch(batch, epoch=plan.version, now=now)
        placed += good
        stale += len(batch) - good
    _ask_to_leave(plan.preemptions, epoch=plan.version, now=now)
    _store_waiting(plan, now)
    return Applied(placed, stale)


def _ask_to_leave(preemptions: Sequence[Preemption], *, epoch: int, now: datetime) -> None:
    """Each on its own. Asking again changes nothing."""
    ids = dict(Workload.objects.filter(uid__in=[one.workload_id for one in preemptions]).values_list("uid", "pk"))
    for one in preemptions:
        if one.workload_id in ids:
            with transaction.atomic():
                assert_epoch(epoch)
                # No id: this is read in the groups of both, and a foreign id must look like a missing one.
                message = "Makes room for other work." if one.beneficiary else "Its cards are taken back."
                request_preempt(
                    workload_id=ids[one.workload_id], reason=Reason(one.cause.value), message=message, now=now
                )


def _batches(placements: Sequence[Placement]) -> Iterator[Sequence[Placement]]:
    for start in range(0, len(placements), BATCH):
        yield placements[start : start + BATCH]


@transaction.atomic
def _place_batch(batch: Sequence[Placement], *, epoch: int, now: datetime) -> int:
    assert_epoch(epoch)
    uids = [placement.request_id for placement in batch]
    owners = set(Workload.objects.filter(uid__in=uids).values_list("group_id", "user_id", "pool_id"))
    scopes = quotas.lock_scopes_of(sorted(owners))
    rows = Workload.objects.select_for_update(no_key=True).filter(uid__in=uids).order_by("pk")
    workloads = {row.uid: row for row in rows.select_related("image", "group")}
    names = {task.node_id for placement in batch for task in placement.tasks}
    # Locked before any card: a cordon that committed before us is seen, one that comes later waits for us.
    locked = Node.objects.select_for_update(no_key=True).filter(name__in=names).order_by("pk")
    nodes = {node.name: node for node in locked}
    uuids = {share.device_id for placement in batch for task in placement.tasks for share in task.shares}
    devices = {device.uuid: device for device in Device.objects.filter(uuid__in=uuids)}
    names = {placement.lent_by for placement in batch if placement.lent_by}
    rules = dict(LendingRule.objects.filter(name__in=names, enabled=True).values_list("name", "pk")) if names else {}
    starts = [start for p in batch if (start := _start(p, workloads, scopes, nodes, devices, rules)) is not None]
    if not starts or _write(starts, epoch, now):
        return len(starts)
    return sum(_write([start], epoch, now) for start in starts)  # one does not fit: which?


def _start(
    placement: Placement,
    workloads: Mapping[str, Workload],
    scopes: Mapping[tuple[int, int, int], list[QuotaScope]],
    nodes: Mapping[str, Node],
    devices: Mapping[str, Device],
    rules: Mapping[str, int],
) -> Start | None:
    """None when the world has moved on: cancelled, or a node, card or lending rule is gone."""
    workload = workloads.get(placement.request_id)
    if workload is None or workload.state != State.QUEUED or (placement.lent_by and placement.lent_by not in rules):
        return None
    targets = _targets(placement, nodes, devices)
    if targets is None:
        return None
    own = scopes[workload.group_id, workload.user_id, workload.pool_id]
    lent_by = rules[placement.lent_by] if placement.lent_by else None
    return Start(workload, own, targets, placement.card_milli // len(placement.tasks), lent_by)


def _write(starts: Sequence[Start], epoch: int, now: datetime) -> bool:
    """False, with nothing changed: a constraint says that it does not fit."""
    before = [[getattr(start.workload, name) for name in MOVED] for start in starts]
    try:
        with transaction.atomic():
            place(starts, epoch=epoch, now=now)
    except (IntegrityError, DataError) as error:
        names = ", ".join(start.workload.uid for start in starts)
        logger.info("placement of %s no longer fits: %s", names, type(error.__cause__ or error).__name__)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # one bad row must not stop the queue
        logger.exception("placement of %s failed", ", ".join(start.workload.uid for start in starts))
    else:
        return True
    for start, values in zip(starts, before, strict=True):
        for name, value in zip(MOVED, values, strict=True):
            setattr(start.workload, name, value)
    return False


def _targets(placement: Placement, nodes: Mapping[str, Node], devices: Mapping[str, Device]) -> list[TaskTarget] | None:
    targets = []
    for task in placement.tasks:
        node = nodes.get(task.node_id)
        if node is None or node.liveness != Liveness.READY or node.duty != Duty.IN_SERVICE:
            return None
        shares = []
        for share in task.shares:
            device = devices.get(share.device_id)
            if device is None or device.node_id != node.pk or not device.usable:
                return None
            shares.append((device.pk, share.memory_mib, share.compute_milli, share.whole))
        targets.append(TaskTarget(task.rank, node.pk, shares))
    return targets


def _store_waiting(plan: Plan, now: datetime) -> None:
    """What has changed of what the pages say: reasons and estimates, equal ones in one statement, and the order."""
    fresh = {one.request_id: _told(one) for one in plan.waiting}
    waiting = Workload.objects.filter(state__in=[State.QUEUED, State.HELD])
    changed: dict[str, tuple[_Told, list[int]]] = {}
    pools: dict[str, int] = {}
    columns = ("pk", "uid", "state", "pool_id", "pending_reasons", "earliest_start", "latest_start")
    for pk, uid, state, pool_id, *told in waiting.values_list(*columns):
        if state == State.QUEUED:
            pools[uid] = pool_id
        if uid in fresh and fresh[uid] != _Told(*told):
            changed.setdefault(repr(fresh[uid]), (fresh[uid], []))[1].append(pk)
    for new, pks in changed.values():
        waiting.filter(pk__in=pks).update(
            pending_reasons=new.reasons, earliest_start=new.earliest, latest_start=new.latest
        )
    for kept in plan.reservations:
        if kept.starts_at_us is not None:
            start = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=kept.starts_at_us)
            waiting.filter(uid=kept.request_id, promised_start=None).update(promised_start=start)
    if _store_order(plan, pools, now) or changed:
        changed_on_commit("queue")


def _store_order(plan: Plan, pools: Mapping[str, int], now: datetime) -> bool:
    """The order of each pool's queue and what is reserved in it. True when any has changed."""
    known = {order.pool_id: order for order in QueueOrder.objects.all()}
    uids: dict[int, list[str]] = {pool_id: [] for pool_id in known}
    for one in sorted(plan.waiting, key=lambda one: one.position):
        if one.request_id in pools:
            uids.setdefault(pools[one.request_id], []).append(one.request_id)
    reserved: dict[int, list[dict[str, object]]] = {}
    for kept in plan.reservations:
        if kept.request_id in pools:
            reserved.setdefault(pools[kept.request_id], []).append(
                {"id": kept.request_id, "nodes": list(kept.node_ids), "starts_at_us": kept.starts_at_us}
            )
    fresh = [
        QueueOrder(pool_id=pool_id, uids=own, reservations=reserved.get(pool_id, []), decided_at=now)
        for pool_id, own in sorted(uids.items())
    ]
    changed = [
        order
        for order in fresh
        if order.pool_id not in known
        or (known[order.pool_id].uids, known[order.pool_id].reservations) != (order.uids, order.reservations)
    ]
    QueueOrder.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["pool"],
        update_fields=["uids", "reservations", "decided_at"],
    )
    return bool(changed)


@dataclass(frozen=True, slots=True)
class _Told:
    """What a waiting workload's page says."""

    reasons: list[dict[str, object]]
    earliest: datetime | None
    latest: datetime | None


def _told(waiting: Waiting) -> _Told:
    """Estimates to the minute: an answer that changes each second is none, and would be written each second."""
    reasons = [_reason(reason) for reason in waiting.reasons]
    return _Told(reasons, instant(waiting.earliest_us), instant(waiting.latest_us))


def _reason(reason: PendingReason) -> dict[str, object]:
    return {"code": reason.code.value, "message": reason.message, "numbers": dict(reason.numbers)}
