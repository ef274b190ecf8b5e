"""What an attempt holds: booked whole when it is placed, given back task by task."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from aistation.core.bulk import update_rows
from aistation.core.dispatch import changed_on_commit, send_once_on_commit
from aistation.core.ids import new_secret
from aistation.fleet import services as fleet
from aistation.fleet.services import DeviceAmount, NodeAmount
from aistation.quotas import services as quotas
from aistation.quotas.models import QuotaScope
from aistation.quotas.services import Charge, sum_of
from aistation.workloads.lifecycle import Event, Kind
from aistation.workloads.models import Allocation, Attempt, DeviceShare, Task, Transition, Workload
from aistation.workloads.services import MOVED, announce, move


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """Where one task goes: row ids of the node and of the cards."""

    rank: int
    node_id: int
    shares: Sequence[tuple[int, int, int, bool]]  # device id, MiB, milli, whole


@dataclass(frozen=True, slots=True)
class Start:
    """A queued workload and where its next attempt runs. ``card_milli`` is charged for each task."""

    workload: Workload
    scopes: Sequence[QuotaScope]
    targets: Sequence[TaskTarget]
    card_milli: int
    lent_by_id: int | None = None  # the lending rule, on another pool's cards


def place(starts: Sequence[Start], *, epoch: int, now: datetime) -> None:
    """Book all that these attempts need and begin them, in about a dozen statements whatever their number. The
    workloads and scopes are locked, the workloads queued.

    The CHECK constraints raise IntegrityError when a card, a node or a quota would be overbooked; the caller's
    savepoint then undoes all of it, but for what is in memory.
    """
    transitions = [_begin(start.workload, now) for start in starts]
    attempts = Attempt.objects.bulk_create(
        Attempt(workload=start.workload, number=start.workload.attempt, epoch=epoch, placed_at=now) for start in starts
    )
    pairs = [
        (start, attempt, target) for start, attempt in zip(starts, attempts, strict=True) for target in start.targets
    ]
    tasks = Task.objects.bulk_create(
        Task(
            uid=f"{start.workload.uid}-{start.workload.attempt}-{target.rank}",
            attempt=attempt,
            rank=target.rank,
            node_id=target.node_id,
            nonce=new_secret(),
        )
        for start, attempt, target in pairs
    )
    allocations = Allocation.objects.bulk_create(
        Allocation(
            task=task,
            node_id=target.node_id,
            cpu_milli=start.workload.cpu_milli,
            memory_mib=start.workload.memory_mib,
            card_milli=start.card_milli,
            epoch=epoch,
            taken_at=now,
            lent_by_id=start.lent_by_id,
        )
        for task, (start, _, target) in zip(tasks, pairs, strict=True)
    )
    shares = DeviceShare.objects.bulk_create(
        DeviceShare(allocation=allocation, device_id=device, memory_mib=memory, compute_milli=milli, whole=whole)
        for allocation, (_, _, target) in zip(allocations, pairs, strict=True)
        for device, memory, milli, whole in target.shares
    )
    update_rows([start.workload for start in starts], MOVED)
    Transition.objects.bulk_create(transitions)
    owners: dict[int, tuple[Sequence[QuotaScope], list[Charge]]] = {}
    held = {task.pk: allocation for task, allocation in zip(tasks, allocations, strict=True)}
    by_attempt: dict[int, list[Allocation]] = {}
    for task in tasks:
        by_attempt.setdefault(task.attempt_id, []).append(held[task.pk])
    for start, attempt in zip(starts, attempts, strict=True):
        key = start.scopes[-1].pk
        owners.setdefault(key, (start.scopes, []))[1].append(_charge(start.workload, by_attempt[attempt.pk], counts=1))
    for _, (scopes, charges) in sorted(owners.items()):
        quotas.take(scopes, sum_of(charges))
    fleet.take_nodes(_node_amounts(allocations))
    fleet.take_devices(_device_amounts(shares))
    fleet.bump_desired({allocation.node_id for allocation in allocations})
    for start in starts:
        announce(start.workload)


def _begin(workload: Workload, now: datetime) -> Transition:
    workload.attempt += 1
    workload.pending_reasons = []
    workload.exit_code = None
    return move(workload, Event.PLACE, now=now)


def _node_amounts(allocations: Sequence[Allocation]) -> list[NodeAmount]:
    return [NodeAmount(held.node_id, held.cpu_milli, held.memory_mib) for held in allocations]


def _device_amounts(shares: Sequence[DeviceShare]) -> list[DeviceAmount]:
    return [DeviceAmount(share.device_id, share.memory_mib, share.compute_milli) for share in shares]


def _charge(workload: Workload, allocations: Sequence[Allocation], *, counts: int) -> Charge:
    is_job = workload.kind == Kind.JOB
    return Charge(
        gpu_milli=sum(allocation.card_milli for allocation in allocations),
        cpu_milli=sum(allocation.cpu_milli for allocation in allocations),
        memory_mib=sum(allocation.memory_mib for allocation in allocations),
        environments=0 if is_job else counts,
        running_jobs=counts if is_job else 0,
    )


def release_tasks(tasks: Sequence[Task], scopes: Mapping[quotas.Owner, Sequence[QuotaScope]], now: datetime) -> None:
    """Give back what these tasks hold. Doing it twice gives back once; the last of an attempt also gives back its
    count of running jobs or environments. The workloads are locked, and the scopes of their owners."""
    if not tasks:
        return
    workload_ids = {task.attempt.workload_id for task in tasks}
    live = list(
        Allocation.objects.select_for_update(no_key=True, of=("self",))
        .filter(task__attempt__workload__in=workload_ids, released_at=None)
        .order_by("pk")
        .select_related("task__attempt__workload")
        .prefetch_related("shares")
    )
    ids = {task.pk for task in tasks}
    freed = [allocation for allocation in live if allocation.task_id in ids]
    if not freed:
        return
    Allocation.objects.filter(pk__in=[allocation.pk for allocation in freed]).update(released_at=now)
    held = Counter(allocation.task.attempt.workload_id for allocation in live)
    by_workload: dict[int, list[Allocation]] = {}
    for allocation in freed:
        by_workload.setdefault(allocation.task.attempt.workload_id, []).append(allocation)
    charges: dict[quotas.Owner, list[Charge]] = {}
    for workload_id, own in sorted(by_workload.items()):
        workload = own[0].task.attempt.workload
        charge = _charge(workload, own, counts=int(len(own) == held[workload_id]))
        charges.setdefault((workload.group_id, workload.user_id, workload.pool_id), []).append(charge)
    for owner, sums in sorted(charges.items()):
        quotas.give_back(scopes[owner], sum_of(sums))
    fleet.give_back_nodes(_node_amounts(freed))
    fleet.give_back_devices(_device_amounts([share for allocation in freed for share in allocation.shares.all()]))
    send_once_on_commit("scheduling.decide")
    changed_on_commit("cluster")
