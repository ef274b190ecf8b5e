"""Short ways to say a cluster, and to apply a plan to it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from scheduler.model import Device, Kind, Limit, Node, Plan, Pool, Request, Resources, Scope, Snapshot, Strategy
from scheduler.sizing import slice_mib

V100_MIB = 32_510  # what a "32 GB" V100 reports
T4_MIB = 15_360
SLICE_MIB = 3_999  # of a V100 cut in 8 with the usual reserve
ALL_KINDS = frozenset(Kind)


def a_pool(
    name: str = "pool",
    *,
    slices: int = 8,
    reserve: int = 512,
    strategy: Strategy = Strategy.PACK,
    kinds: Iterable[Kind] = ALL_KINDS,
) -> Pool:
    return Pool(name, frozenset(kinds), slices, reserve, strategy)


def a_device(
    device_id: str,
    *,
    model: str = "V100-32GB",
    memory_mib: int = V100_MIB,
    used_slices: int = 0,
    is_whole_taken: bool = False,
    usable: bool = True,
    pool: Pool | None = None,
) -> Device:
    """A card of which some slices are taken, or all of it."""
    if is_whole_taken:
        return Device(device_id, model, memory_mib, 0, 0, usable)
    cut = pool or a_pool()
    count = max(1, cut.slices_per_gpu)
    free_mib = memory_mib - used_slices * slice_mib(cut, memory_mib)
    return Device(device_id, model, memory_mib, free_mib, 1000 - used_slices * (1000 // count), usable)


def a_node(
    name: str = "n1",
    *,
    gpus: int = 0,
    devices: Iterable[Device] | None = None,
    cpu: int = 48_000,
    memory: int = 393_216,
    free_cpu: int | None = None,
    free_memory: int | None = None,
    model: str = "V100-32GB",
    memory_mib: int = V100_MIB,
    pool: str = "pool",
    schedulable: bool = True,
) -> Node:
    """A node with ``gpus`` free cards, or with exactly these devices."""
    if devices is None:
        devices = [a_device(f"{name}-gpu{place}", model=model, memory_mib=memory_mib) for place in range(gpus)]
    return Node(
        name,
        pool,
        cpu,
        memory,
        cpu if free_cpu is None else free_cpu,
        memory if free_memory is None else free_memory,
        tuple(devices),
        schedulable,
    )


def some_resources(gpus: int = 0, *, cpu: int = 1_000, memory: int = 1_024, **share: Any) -> Resources:
    """``slices``, ``mib``, ``milli`` and ``model`` are the GPU's."""
    return Resources(cpu, memory, gpus, share.get("slices"), share.get("mib"), share.get("milli"), share.get("model"))


def a_job(
    request_id: str = "j1",
    gpus: int = 0,
    *,
    kind: Kind = Kind.JOB,
    group: str = "vision",
    user: str = "ada",
    pool: str = "pool",
    priority: int = 50,
    at: int = 0,
    tasks: int = 1,
    held: bool = False,
    **resources: Any,
) -> Request:
    return Request(request_id, kind, group, user, pool, some_resources(gpus, **resources), priority, at, tasks, held)


def a_scope(
    scope_id: str = "s1",
    *,
    group: str = "vision",
    user: str | None = None,
    pool: str | None = None,
    **limits: int | tuple[int, int],
) -> Scope:
    """Limits as ``cpu_milli=4000``, or with use as ``cpu_milli=(4000, 1000)``."""
    named: dict[str, Any] = {
        name: Limit(*number) if isinstance(number, tuple) else Limit(number) for name, number in limits.items()
    }
    return Scope(scope_id, group, user, pool, **named)


def a_snapshot(
    nodes: Iterable[Node] = (),
    pending: Iterable[Request] = (),
    *,
    scopes: Iterable[Scope] = (),
    pools: Iterable[Pool] | None = None,
) -> Snapshot:
    return Snapshot(7, 1_000_000, tuple(pools or (a_pool(),)), tuple(nodes), tuple(scopes), tuple(pending))


def node_of(plan: Plan, request_id: str) -> str | None:
    """The node of a one-task request; None when it waits."""
    return next((one.tasks[0].node_id for one in plan.placements if one.request_id == request_id), None)


def cards_of(plan: Plan, request_id: str) -> list[str]:
    """The cards of all tasks of a placed request."""
    placed = next(one for one in plan.placements if one.request_id == request_id)
    return [share.device_id for task in placed.tasks for share in task.shares]


def reasons_of(plan: Plan, request_id: str) -> dict[str, dict[str, int | str]]:
    """Code -> numbers of the reasons why a request waits."""
    waiting = next(one for one in plan.waiting if one.request_id == request_id)
    return {reason.code.value: dict(reason.numbers) for reason in waiting.reasons}


def after(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The cluster once the plan is carried out: what was placed runs, the rest is pending."""
    requests = {request.id: request for request in snapshot.pending}
    nodes = {node.id: node for node in snapshot.nodes}
    scopes = list(snapshot.scopes)
    for placement in plan.placements:
        request = requests.pop(placement.request_id)
        for task in placement.tasks:
            nodes[task.node_id] = _with_task(nodes[task.node_id], request.resources, task.shares)
        scopes = [_charged(scope, request, placement.card_milli) for scope in scopes]
    ordered = tuple(nodes[node.id] for node in snapshot.nodes)
    return replace(snapshot, nodes=ordered, scopes=tuple(scopes), pending=tuple(requests.values()))


def _with_task(node: Node, resources: Resources, shares: Iterable[Any]) -> Node:
    taken = {share.device_id: share for share in shares}
    devices = tuple(
        replace(
            device,
            free_memory_mib=device.free_memory_mib - taken[device.id].memory_mib,
            free_milli=device.free_milli - taken[device.id].compute_milli,
        )
        if device.id in taken
        else device
        for device in node.devices
    )
    return replace(
        node,
        free_cpu_milli=node.free_cpu_milli - resources.cpu_milli,
        free_memory_mib=node.free_memory_mib - resources.memory_mib,
        devices=devices,
    )


def applies(scope: Scope, request: Request) -> bool:
    return (
        scope.group_id == request.group_id
        and scope.user_id in (None, request.user_id)
        and scope.pool_id in (None, request.pool_id)
    )


def charges(request: Request, card_milli: int) -> dict[str, int]:
    return {
        "gpu_milli": card_milli,
        "cpu_milli": request.resources.cpu_milli * request.tasks,
        "memory_mib": request.resources.memory_mib * request.tasks,
        "environments": int(request.kind is Kind.ENVIRONMENT),
        "running_jobs": int(request.kind is Kind.JOB),
    }


def _charged(scope: Scope, request: Request, card_milli: int) -> Scope:
    if not applies(scope, request):
        return scope
    changed: dict[str, Any] = {}
    for name, amount in charges(request, card_milli).items():
        limit: Limit = getattr(scope, name)
        changed[name] = replace(limit, used=limit.used + amount)
    return replace(scope, **changed)
