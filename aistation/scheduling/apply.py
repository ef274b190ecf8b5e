"""Write a plan: every placement is checked again in the transaction that writes it."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import DataError, IntegrityError, transaction

from aistation.core.dispatch import changed_on_commit
from aistation.fleet.models import Device, Duty, Liveness, Node
from aistation.quotas import services as quotas
from aistation.quotas.models import QuotaScope
from aistation.scheduling.lease import assert_epoch
from aistation.workloads.allocations import Start, TaskTarget, place
from aistation.workloads.lifecycle import State
from aistation.workloads.models import Workload
from aistation.workloads.services import MOVED
from scheduler.model import PendingReason, Placement, Plan

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
    _store_reasons(plan)
    return Applied(placed, stale)


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
    starts = [start for p in batch if (start := _start(p, workloads, scopes, nodes, devices)) is not None]
    if not starts or _write(starts, epoch, now):
        return len(starts)
    return sum(_write([start], epoch, now) for start in starts)  # one does not fit: which?


def _start(
    placement: Placement,
    workloads: Mapping[str, Workload],
    scopes: Mapping[tuple[int, int, int], list[QuotaScope]],
    nodes: Mapping[str, Node],
    devices: Mapping[str, Device],
) -> Start | None:
    """None when the world has moved on: cancelled, or a node or card is gone."""
    workload = workloads.get(placement.request_id)
    if workload is None or workload.state != State.QUEUED:
        return None
    targets = _targets(placement, nodes, devices)
    if targets is None:
        return None
    own = scopes[workload.group_id, workload.user_id, workload.pool_id]
    return Start(workload, own, targets, placement.card_milli // len(placement.tasks))


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


def _store_reasons(plan: Plan) -> None:
    """Write the reasons that changed; equal ones go in one statement."""
    fresh = {waiting.request_id: [_reason(reason) for reason in waiting.reasons] for waiting in plan.waiting}
    changed: dict[str, tuple[list[dict[str, object]], list[int]]] = {}
    rows = Workload.objects.filter(state__in=[State.QUEUED, State.HELD]).values_list("pk", "uid", "pending_reasons")
    for pk, uid, reasons in rows:
        if uid in fresh and fresh[uid] != reasons:
            changed.setdefault(repr(fresh[uid]), (fresh[uid], []))[1].append(pk)
    for reasons, pks in changed.values():
        Workload.objects.filter(pk__in=pks, state__in=[State.QUEUED, State.HELD]).update(pending_reasons=reasons)
    if changed:
        changed_on_commit("queue")


def _reason(reason: PendingReason) -> dict[str, object]:
    return {"code": reason.code.value, "message": reason.message, "numbers": dict(reason.numbers)}
