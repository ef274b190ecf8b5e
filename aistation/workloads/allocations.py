"""What an attempt holds: booked whole when it is placed, given back task by task."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from aistation.core.dispatch import broadcast_on_commit, send_once_on_commit
from aistation.core.ids import new_secret
from aistation.fleet import services as fleet
from aistation.fleet.services import DeviceAmount, NodeAmount
from aistation.quotas import services as quotas
from aistation.quotas.models import QuotaScope
from aistation.quotas.services import Charge
from aistation.workloads.lifecycle import Event, Kind
from aistation.workloads.models import Allocation, Attempt, DeviceShare, Task, Workload
from aistation.workloads.services import apply_event


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """Where one task goes: row ids of the node and of the cards."""

    rank: int
    node_id: int
    shares: Sequence[tuple[int, int, int, bool]]  # device id, MiB, milli, whole


def place(
    workload: Workload,
    scopes: Sequence[QuotaScope],
    targets: Sequence[TaskTarget],
    *,
    card_milli: int,
    epoch: int,
    now: datetime,
) -> None:
    """Book all that an attempt needs and begin it. ``workload`` and ``scopes`` are locked, it is queued.

    ``card_milli`` is charged for each task. The CHECK constraints raise IntegrityError when a card, a node or a
    quota would be overbooked; the caller's savepoint then undoes the whole placement.
    """
    workload.attempt += 1
    workload.pending_reasons = []
    workload.exit_code = None
    apply_event(workload, Event.PLACE, now=now)
    attempt = Attempt.objects.create(workload=workload, number=workload.attempt, epoch=epoch, placed_at=now)
    tasks = Task.objects.bulk_create(
        Task(
            uid=f"{workload.uid}-{workload.attempt}-{target.rank}",
            attempt=attempt,
            rank=target.rank,
            node_id=target.node_id,
            nonce=new_secret(),
        )
        for target in targets
    )
    allocations = Allocation.objects.bulk_create(
        Allocation(
            task=task,
            node_id=target.node_id,
            cpu_milli=workload.cpu_milli,
            memory_mib=workload.memory_mib,
            card_milli=card_milli,
            epoch=epoch,
            taken_at=now,
        )
        for task, target in zip(tasks, targets, strict=True)
    )
    shares = [
        DeviceShare(allocation=allocation, device_id=device, memory_mib=memory, compute_milli=milli, whole=whole)
        for allocation, target in zip(allocations, targets, strict=True)
        for device, memory, milli, whole in target.shares
    ]
    DeviceShare.objects.bulk_create(shares)
    quotas.take(scopes, _charge(workload, allocations, counts=1))
    fleet.take_nodes(_node_amounts(allocations))
    fleet.take_devices(_device_amounts(shares))
    fleet.bump_desired(sorted({target.node_id for target in targets}))


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


def release_tasks(workload: Workload, scopes: Sequence[QuotaScope], task_ids: Sequence[int], now: datetime) -> None:
    """Give back what these tasks hold. Doing it twice gives back once; the last of an attempt also gives back its
    count of running jobs or environments."""
    live = list(
        Allocation.objects.select_for_update(no_key=True)
        .filter(task__attempt__workload=workload, released_at=None)
        .order_by("pk")
        .prefetch_related("shares")
    )
    freed = [allocation for allocation in live if allocation.task_id in set(task_ids)]
    if not freed:
        return
    Allocation.objects.filter(pk__in=[allocation.pk for allocation in freed]).update(released_at=now)
    quotas.give_back(scopes, _charge(workload, freed, counts=int(len(freed) == len(live))))
    fleet.give_back_nodes(_node_amounts(freed))
    fleet.give_back_devices(_device_amounts([share for allocation in freed for share in allocation.shares.all()]))
    send_once_on_commit("scheduling.decide")
    broadcast_on_commit("cluster", {"type": "changed", "topic": "cluster"})
