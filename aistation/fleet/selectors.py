"""Reads of the fleet. ``access_*`` is the only way for an edge to get hold of a row."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db.models import Count, Prefetch, QuerySet, Sum

from aistation.core.errors import NotFoundError
from aistation.fleet.models import Device, Duty, JoinToken, LendingRule, Liveness, Node, Pool, Reserve
from aistation.tenancy.policy import Action, Actor, allows
from aistation.tenancy.selectors import require
from scheduler.model import WHOLE_CARD_MILLI, Window
from scheduler.model import Device as DeviceFact
from scheduler.model import Kind as KindFact
from scheduler.model import LendingRule as LendingFact
from scheduler.model import Node as NodeFact
from scheduler.model import Pool as PoolFact
from scheduler.model import Reserve as ReserveFact
from scheduler.model import Strategy as StrategyFact
from scheduler.model import TakeBack as TakeBackFact
from scheduler.sizing import slice_mib


def list_pools(actor: Actor) -> QuerySet[Pool]:
    require(actor, Action.VIEW_CLUSTER)
    return Pool.objects.order_by("name")


def access_pool(actor: Actor, name: str, action: Action = Action.VIEW_CLUSTER) -> Pool:
    pool = Pool.objects.filter(name=name).first()
    if pool is None or not allows(actor, Action.VIEW_CLUSTER):
        raise NotFoundError
    require(actor, action)
    return pool


def list_lending(actor: Actor) -> QuerySet[LendingRule]:
    require(actor, Action.VIEW_CLUSTER)
    return LendingRule.objects.select_related("lender", "borrower").order_by("name")


def list_reserves(actor: Actor) -> QuerySet[Reserve]:
    require(actor, Action.VIEW_CLUSTER)
    return Reserve.objects.select_related("pool").order_by("name")


def access_lending(actor: Actor, name: str) -> LendingRule:
    rule = list_lending(actor).filter(name=name).first()
    if rule is None:
        raise NotFoundError
    return rule


def access_reserve(actor: Actor, name: str) -> Reserve:
    reserve = list_reserves(actor).filter(name=name).first()
    if reserve is None:
        raise NotFoundError
    return reserve


def list_nodes(actor: Actor) -> QuerySet[Node]:
    """Nodes by name with their pools and cards: two queries for any number."""
    require(actor, Action.VIEW_CLUSTER)
    cards = Prefetch("devices", Device.objects.order_by("uuid"))
    return Node.objects.select_related("pool").prefetch_related(cards).order_by("name")


def access_node(actor: Actor, name: str, action: Action = Action.VIEW_CLUSTER) -> Node:
    node = list_nodes(actor).filter(name=name).first() if allows(actor, Action.VIEW_CLUSTER) else None
    if node is None:
        raise NotFoundError
    require(actor, action)
    return node


def list_devices(actor: Actor) -> QuerySet[Device]:
    """Cards of all nodes, by node and UUID."""
    require(actor, Action.VIEW_CLUSTER)
    rows = Device.objects.filter(node__removed_at=None)
    return rows.select_related("node__pool").order_by("node__name", "uuid")


def list_join_tokens(actor: Actor) -> QuerySet[JoinToken]:
    """All join tokens with the nodes that used them, newest first."""
    require(actor, Action.MANAGE_NODES)
    return JoinToken.objects.select_related("pool", "node").order_by("-id")


def unavailable_because(node: Node) -> str:
    """Why nothing new starts on the node, for people; empty when it may take work."""
    if node.state != Liveness.READY:
        return f"The node is {node.state}."
    if node.runtime_error:
        return f"The container engine does not work: {node.runtime_error}"
    if node.disk_used_percent is not None and node.disk_used_percent >= settings.DISK_FULL_PERCENT:
        return f"The disk is {node.disk_used_percent} % full; work starts below {settings.DISK_FULL_PERCENT} %."
    return ""


def has_ready_node() -> bool:
    return Node.objects.filter(liveness=Liveness.READY, duty=Duty.IN_SERVICE).exists()


# --- for the agents' edge ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """A node that proved who it is."""

    node_id: int
    name: str
    fingerprint: str


def node_of_token(digest: bytes) -> NodeIdentity | None:
    """Whose credential has this SHA-256; None: nobody's, or the node was removed."""
    row = Node.objects.filter(token_digest=digest).values_list("pk", "name", "fingerprint").first()
    return None if row is None else NodeIdentity(*row)


def desired_version(node_id: int) -> int | None:
    """None: the node was removed. Read it before the tasks, so that a change in between is fetched again."""
    return Node.objects.filter(pk=node_id).values_list("desired_version", flat=True).first()


# --- for the scheduler -------------------------------------------------------------------------------


def scheduler_pools() -> tuple[PoolFact, ...]:
    """All pools as the scheduler sees them, by name."""
    return tuple(
        PoolFact(
            id=pool.name,
            kinds=frozenset(KindFact(kind) for kind in pool.kinds),
            slices_per_gpu=pool.slices_per_gpu,
            gpu_reserve_mib=pool.gpu_reserve_mib,
            strategy=StrategyFact(pool.strategy),
            priority_gap=pool.priority_gap,
            min_run_s=pool.min_run_s,
        )
        for pool in Pool.objects.order_by("name")
    )


_NODE_COLUMNS: Final = (
    "name", "pool__name", "labels", "duty", "liveness", "runtime_error", "disk_used_percent",
    "cpu_milli", "cpu_taken_milli", "memory_mib", "memory_taken_mib",
)  # fmt: skip
_DEVICE_COLUMNS: Final = (
    "uuid", "node", "model", "memory_mib", "memory_taken_mib", "taken_milli", "present", "healthy", "reason",
)  # fmt: skip


def scheduler_nodes() -> tuple[NodeFact, ...]:
    """All nodes with their cards and what is free of them, by name: two queries."""
    cards = Prefetch("devices", Device.objects.only(*_DEVICE_COLUMNS).order_by("uuid"))
    nodes = Node.objects.select_related("pool").only(*_NODE_COLUMNS).prefetch_related(cards).order_by("name")
    return tuple(
        NodeFact(
            id=node.name,
            pool_id=node.pool.name,
            cpu_milli=node.cpu_milli,
            memory_mib=node.memory_mib,
            free_cpu_milli=max(0, node.cpu_milli - node.cpu_taken_milli),
            free_memory_mib=max(0, node.memory_mib - node.memory_taken_mib),
            devices=tuple(_device_fact(device) for device in node.devices.all()),
            schedulable=not unavailable_because(node),
            labels=frozenset(node.labels),
        )
        for node in nodes
    )


def fleet_totals() -> Mapping[int, tuple[int, int, int]]:
    """Card milli, CPU milli and MiB of RAM that each pool has, by its row id."""
    nodes = Node.objects.values_list("pool_id").annotate(Sum("cpu_milli"), Sum("memory_mib")).order_by()
    cards = Device.objects.filter(present=True, node__removed_at=None).values_list("node__pool_id")
    counts = dict(cards.annotate(Count("id")).order_by())
    return {
        pool_id: (counts.get(pool_id, 0) * WHOLE_CARD_MILLI, int(cpu), int(memory)) for pool_id, cpu, memory in nodes
    }


def scheduler_lending() -> tuple[LendingFact, ...]:
    """The lending rules in force, by name."""
    return tuple(
        LendingFact(
            id=rule.name,
            lender=rule.lender.name,
            borrower=rule.borrower.name,
            windows=windows_of(rule.windows),
            time_zone=rule.time_zone,
            keep_free_slices=rule.keep_free_slices,
            keep_free_cards=rule.keep_free_cards,
            notice_s=rule.notice_s,
            take_back=TakeBackFact(rule.take_back),
        )
        for rule in LendingRule.objects.filter(enabled=True).select_related("lender", "borrower").order_by("name")
    )


def scheduler_reserves() -> tuple[ReserveFact, ...]:
    """The warm reserves, by name."""
    return tuple(
        ReserveFact(row.name, row.pool.name, row.slices, windows_of(row.windows), row.time_zone)
        for row in Reserve.objects.select_related("pool").order_by("name")
    )


def windows_of(pairs: Iterable[Sequence[int]]) -> tuple[Window, ...]:
    return tuple(Window(start, end) for start, end in pairs)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Pools and nodes as they were at ``read_at``, seconds of the monotonic clock."""

    pools: tuple[PoolFact, ...]
    nodes: tuple[NodeFact, ...]
    read_at: float


_recent: Capacity | None = None


def capacity(*, no_older_than_s: float = 0.0) -> Capacity:
    """What there is, free or not. Of the recent past it costs nothing: enough to let something in that then waits
    for room, never to refuse."""
    global _recent
    known, now = _recent, time.monotonic()
    if known is None or now - known.read_at >= no_older_than_s:
        _recent = known = Capacity(scheduler_pools(), scheduler_nodes(), now)
    return known


def _device_fact(device: Device) -> DeviceFact:
    memory_mib = device.memory_mib or 0
    return DeviceFact(
        id=device.uuid,
        model=device.model,
        memory_mib=memory_mib,
        free_memory_mib=max(0, memory_mib - device.memory_taken_mib),
        free_milli=WHOLE_CARD_MILLI - device.taken_milli,
        usable=device.usable,
    )


# --- free capacity -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PoolCapacity:
    """What a pool has and what of it is free now. Usable and free leave out nodes that take no work and broken cards.

    ``slices`` counts are 0 in an uncut pool.
    """

    pool: str
    nodes: int
    usable_nodes: int
    installed_cards: int
    usable_cards: int
    free_cards: int  # wholly free
    usable_slices: int
    free_slices: int
    usable_cpu_milli: int
    free_cpu_milli: int
    usable_memory_mib: int
    free_memory_mib: int

    @property
    def taken_cards(self) -> int:
        """Usable cards of which at least a part is taken."""
        return self.usable_cards - self.free_cards


def list_capacity(actor: Actor) -> list[PoolCapacity]:
    """Capacity of each pool, by name: from the very facts that the scheduler decides on, so the two agree."""
    require(actor, Action.VIEW_CLUSTER)
    nodes = scheduler_nodes()
    return [capacity_of(pool, [node for node in nodes if node.pool_id == pool.id]) for pool in scheduler_pools()]


def capacity_of(pool: PoolFact, nodes: Sequence[NodeFact]) -> PoolCapacity:
    """Sum up the nodes of one pool."""
    usable = [node for node in nodes if node.schedulable]
    cards = [card for node in usable for card in node.devices if card.usable]
    return PoolCapacity(
        pool=pool.id,
        nodes=len(nodes),
        usable_nodes=len(usable),
        installed_cards=sum(len(node.devices) for node in nodes),
        usable_cards=len(cards),
        free_cards=sum(card.is_empty for card in cards),
        usable_slices=_slices(pool, cards, pool.slices_per_gpu),
        free_slices=sum(free_slices(pool, card) for card in cards),
        usable_cpu_milli=sum(node.cpu_milli for node in usable),
        free_cpu_milli=sum(node.free_cpu_milli for node in usable),
        usable_memory_mib=sum(node.memory_mib for node in usable),
        free_memory_mib=sum(node.free_memory_mib for node in usable),
    )


def _slices(pool: PoolFact, cards: Iterable[DeviceFact], each: int) -> int:
    return sum(each for card in cards if slice_mib(pool, card.memory_mib) > 0)


def free_slices(pool: PoolFact, card: DeviceFact) -> int:
    """How many more slices the card can give; 0 in an uncut pool."""
    size = slice_mib(pool, card.memory_mib)
    if size <= 0:
        return 0
    by_memory = card.free_memory_mib // size
    by_compute = (
        (card.free_milli + 1) * pool.slices_per_gpu - 1
    ) // WHOLE_CARD_MILLI  # n slices take floor(1000 n / all)
    return max(0, min(pool.slices_per_gpu, by_memory, by_compute))
