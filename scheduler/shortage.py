"""What a pool lacks for a request right now: too little in all (full), or enough in all but not in one place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from scheduler.capacity import Ask, CardRoom, NodeRoom, PoolRoom
from scheduler.filters import fitting_cards, is_empty, tasks_on, tasks_on_cards
from scheduler.model import PendingReason, Pool, Reason, Resources
from scheduler.sizing import slices_left, slices_needed
from scheduler.wording import AMOUNT, counted

Places: TypeAlias = Sequence[tuple[NodeRoom, list[CardRoom]]]
"""Open nodes, each with its cards that have room for a share of the request."""

_FREE_ON_CARD: Final[Mapping[str, Callable[[Pool, CardRoom], int]]] = {
    "gpus": lambda _, card: int(is_empty(card)),
    "gpu_slices": lambda pool, card: slices_left(pool, card.memory_mib, card.free_memory_mib, card.free_milli),
    "gpu_memory_mib": lambda _, card: max(0, card.free_memory_mib),
    "gpu_compute_milli": lambda _, card: max(0, card.free_milli),
}
_FREE_ON_NODE: Final[Mapping[str, Callable[[NodeRoom], int]]] = {
    "cpu_milli": lambda node: max(0, node.free_cpu_milli),
    "memory_mib": lambda node: max(0, node.free_memory_mib),
}


class Leftover:
    """The open nodes of a pool as a finished plan leaves them, summed up once for all that wait."""

    def __init__(self, room: PoolRoom) -> None:
        self.room = room
        self._open = [node for node in room.nodes if node.is_open]
        self._cards: list[list[CardRoom]] = [[] for _ in room.kinds]
        for node in self._open:
            for card in node.cards:
                self._cards[card.kind].append(card)
        self._on_nodes = {name: [free_on(node) for node in self._open] for name, free_on in _FREE_ON_NODE.items()}
        self._on_cards: dict[tuple[str, int], tuple[int, int]] = {}

    def places(self, ask: Ask) -> Places:
        """The open nodes; for a request with GPUs only those that have something free on a card."""
        if ask.gpus == 0:
            return [(node, []) for node in self._open if ask.layout.labels <= node.labels]
        return [
            (node, fitting_cards(ask, node, node.cards))
            for node in self._open
            if node.free_milli > 0 and ask.layout.labels <= node.labels
        ]

    def on_nodes(self, quantity: str) -> tuple[int, int]:
        """What all open nodes have free of it, and the most that one of them has."""
        free = self._on_nodes[quantity]
        return sum(free), max(free, default=0)

    def on_cards(self, quantity: str, kinds: Sequence[int]) -> tuple[int, int]:
        """What all cards of these kinds have free of it, and the most that one of them has."""
        each = [self._on_cards_of(quantity, kind) for kind in kinds]
        return sum(total for total, _ in each), max((largest for _, largest in each), default=0)

    def _on_cards_of(self, quantity: str, kind: int) -> tuple[int, int]:
        found = self._on_cards.get((quantity, kind))
        if found is None:
            free = [_FREE_ON_CARD[quantity](self.room.pool, card) for card in self._cards[kind]]
            found = self._on_cards[quantity, kind] = sum(free), max(free, default=0)
        return found


def find_shortages(resources: Resources, ask: Ask, left: Leftover, places: Places) -> tuple[PendingReason, ...]:
    """Why the open nodes do not hold all tasks now, GPUs first. To be asked only when they do not."""
    reasons = _gpu_shortages(resources, ask, left, places) if ask.gpus else []
    # CPU and memory count beside cards that fit; where there are none, they are looked at alone.
    beside = [node for node, fitting in places if len(fitting) >= ask.gpus] if ask.gpus else []
    for name, needed in (("cpu_milli", ask.cpu_milli), ("memory_mib", ask.memory_mib)):
        total, largest = left.on_nodes(name)
        where = "one node"
        if beside:
            largest, where = max(_FREE_ON_NODE[name](node) for node in beside), "one node with free cards"
        if total < needed * ask.tasks:
            reasons.append(_full(name, needed * ask.tasks, total, left.room.pool))
        elif largest < needed:
            reasons.append(_fragmented(name, needed, largest, where))
    if reasons:
        return tuple(reasons)
    if ask.layout.same_node and ask.tasks > 1:
        anywhere = replace(ask, layout=replace(ask.layout, same_node=False))
        most = max((tasks_on(anywhere, node, fitting) for node, fitting in places), default=0)
        return (_not_together(ask, most),)
    return (_not_together(ask, sum(tasks_on(ask, node, fitting) for node, fitting in places)),)


def _gpu_shortages(resources: Resources, ask: Ask, left: Leftover, places: Places) -> list[PendingReason]:
    """What the cards lack when CPU and memory are left aside."""
    held = sum(tasks_on_cards(ask, fitting, ask.tasks) for _, fitting in places)
    if held >= ask.tasks:
        return []
    able = [kind for kind, given in enumerate(ask.grants) if given is not None]
    reasons = []
    for name, needed in _needs_of_card(resources, ask, left.room):
        total, largest = left.on_cards(name, able)
        if total < needed * ask.gpus * ask.tasks:
            reasons.append(_full(name, needed * ask.gpus * ask.tasks, total, left.room.pool))
        elif largest < needed:
            reasons.append(_fragmented(name, needed, largest, "one card"))
    if reasons:
        return reasons
    most_cards = max((len(fitting) for _, fitting in places), default=0)
    if most_cards < ask.gpus:
        return [_fragmented("gpus", ask.gpus, most_cards, "one node")]
    return [_not_together(ask, held)]


def _needs_of_card(resources: Resources, ask: Ask, room: PoolRoom) -> list[tuple[str, int]]:
    """What one share takes of the kind of card that asks least: cards, slices, or memory and compute."""
    if ask.is_whole:
        return [("gpus", 1)]
    if room.pool.slices_per_gpu > 0:
        kinds = [room.kinds[kind] for kind, given in enumerate(ask.grants) if given]
        return [("gpu_slices", min(slices_needed(resources, room.pool, *kind) or 1 for kind in kinds))]
    grants = [given for given in ask.grants if given]
    return [
        ("gpu_memory_mib", min(given.memory_mib for given in grants)),
        ("gpu_compute_milli", min(given.compute_milli for given in grants)),
    ]


def _full(name: str, needed: int, free: int, pool: Pool) -> PendingReason:
    message = f"needs {AMOUNT[name](needed)}, free in pool {pool.id}: {AMOUNT[name](free)}"
    return PendingReason(Reason.POOL_FULL, {"quantity": name, "needed": needed, "free": free}, message)


def _fragmented(name: str, needed: int, largest: int, where: str) -> PendingReason:
    numbers: dict[str, int | str] = {"quantity": name, "needed": needed, "largest_free": largest}
    message = f"needs {AMOUNT[name](needed)} on {where}, largest free is {AMOUNT[name](largest)}"
    return PendingReason(Reason.FRAGMENTED, numbers, message)


def _not_together(ask: Ask, held: int) -> PendingReason:
    numbers: dict[str, int | str] = {"quantity": "tasks", "needed": ask.tasks, "largest_free": held}
    where = ""
    if ask.layout.same_node:
        where = " on one node"
    elif ask.layout.spread:
        where = " on as many nodes"
    if ask.tasks == 1:
        message = "enough cards, CPU and memory are free, but not together on one node"
    else:
        message = f"needs room for {counted(ask.tasks, 'task')} at once{where}, there is room for {held}"
    return PendingReason(Reason.FRAGMENTED, numbers, message)
