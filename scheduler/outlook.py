"""How much worse a pool gets for the work that usually comes when one task goes to a node. For packing only.

The cost of a place has two parts. What the node itself loses is known from the node alone and changes only with it
(`Outlook.cost`). What the pool loses, cards of a scarce model or a node for many-card tasks, has a price that every
placement moves (`Outlook.price`); it is the same for all nodes of one `Lane`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from scheduler.forecast import MICRO, Forecast

Pick: TypeAlias = "tuple[CardGroup, int]"
"""A card of the group, and how many thousandths of it are taken."""

Lane: TypeAlias = tuple[int, int]
"""Kind of the node's cards, where it has a price, else -1; the `Hosted` that the node could no longer take, as bits."""

NO_LANE: Lane = (-1, 0)

_SCARCE_BELOW = 10  # a model is scarce when less than a tenth of its cards stays free beside what others need of it
_SCARCITY = 3  # times the task's own size is what a card of such a model costs
_MOST_SCARCE = 5_000  # thousandths
_EXACT = 1_024  # steps in which the chance that a host will be needed is counted


class CardGroup(NamedTuple):
    """Cards of one node with the same left. ``free``: thousandths, of the scarcer of memory and compute.
    Whole cards can be had only where ``is_empty``."""

    free_milli: int
    free_memory_mib: int
    kind: int
    free: int
    is_empty: bool
    count: int


class NodeState:
    """A node in numbers, made once for each change of it. ``kind`` is that of most of its cards, -1 without any."""

    __slots__ = ("can_host", "empty", "free", "free_cpu_milli", "groups", "kind", "starved", "step")

    def __init__(self, forecast: Forecast, free_cpu_milli: int, kind: int, groups: tuple[CardGroup, ...]) -> None:
        self.free_cpu_milli = free_cpu_milli
        self.kind = kind
        self.groups = groups
        self.free = sum(group.free * group.count for group in groups)
        self.empty = sum(group.count for group in groups if group.is_empty)
        self.step = bisect_right(forecast.cpu_steps, free_cpu_milli)
        self.starved = starved(forecast, kind, self.free, free_cpu_milli)
        self.can_host = can_host(forecast, self.empty, free_cpu_milli)


class Losses(NamedTuple):
    """``costs``: by kind of card and thousandths free; ``opening``: what an empty card costs beside, because one fewer
    is left for many-card tasks."""

    costs: tuple[Sequence[int], ...]
    opening: int

    def of(self, group: CardGroup, size: int) -> int:
        """What taking so many thousandths of such a card loses."""
        costs = self.costs[group.kind]
        lost = costs[max(0, group.free - size)] - costs[group.free]
        return lost + self.opening if group.is_empty else lost


class Place(NamedTuple):
    """What a task would do to a node."""

    cost: int  # millionths of a card
    lane: Lane
    free_milli: int  # of the cards taken, before
    free_memory_mib: int


def starved(forecast: Forecast, kind: int, free_milli: int, free_cpu_milli: int) -> int:
    """What of the node's free cards it has no CPU for, in millionths of a card."""
    if kind < 0:
        return 0
    cpu, gpu = forecast.cpu_of_gpu[kind]
    return max(0, free_milli * cpu - free_cpu_milli * gpu) * MICRO // cpu


def can_host(forecast: Forecast, empty: int, free_cpu_milli: int) -> int:
    """Which of the hosted a node with so many empty cards could take, as bits."""
    if empty < 2:
        return 0
    bits = 0
    for place, hosted in enumerate(forecast.hosted):
        if empty >= hosted.gpus and free_cpu_milli >= hosted.cpu_milli:
            bits |= 1 << place
    return bits


class Outlook:
    """One view of a pool through its forecast, kept in step with the view by `leave` and `enter`."""

    def __init__(self, forecast: Forecast) -> None:
        self.forecast = forecast
        self._free = [0] * len(forecast.capacity)
        self._hosts = [0] * len(forecast.hosted)
        self._host_prices: dict[int, int] = {}

    @property
    def has_prices(self) -> bool:
        """False when no place has a price, so that nothing need be counted."""
        return bool(self.forecast.kept_for_others or self.forecast.hosted)

    def enter(self, state: NodeState) -> None:
        """Count this node in."""
        self._count(state, 1)

    def leave(self, state: NodeState) -> None:
        """Count this node out, as it was when it was counted in."""
        self._count(state, -1)

    def _count(self, state: NodeState, sign: int) -> None:
        for group in state.groups:
            self._free[group.kind] += sign * group.free * group.count
        bits, place = state.can_host, 0
        while bits:
            if bits & 1:
                self._hosts[place] += sign
            bits, place = bits >> 1, place + 1
        self._host_prices.clear()

    def cost_without_cards(self, state: NodeState, cpu_milli: int) -> Place:
        """Of a task that takes no card."""
        left = state.free_cpu_milli - cpu_milli
        cost = starved(self.forecast, state.kind, state.free, left) - state.starved
        step = bisect_right(self.forecast.cpu_steps, left)
        if step != state.step:
            cost += self._moved(state, step)
        lost = state.can_host & ~can_host(self.forecast, state.empty, left) if state.can_host else 0
        return Place(cost, (-1, lost), 0, 0)

    def cost(self, state: NodeState, cpu_milli: int, picks: Sequence[Pick], *, has_scarcity: bool) -> Place:
        """Of a task on these cards, one pick for each."""
        forecast = self.forecast
        left = state.free_cpu_milli - cpu_milli
        step = bisect_right(forecast.cpu_steps, left)
        costs = forecast.costs[step]
        cost = taken = opened = free_milli = free_memory_mib = 0
        for group, size in picks:
            of_kind = costs[group.kind]
            cost += of_kind[max(0, group.free - size)] - of_kind[group.free]
            taken += size
            opened += group.is_empty
            free_milli += group.free_milli
            free_memory_mib += group.free_memory_mib
        cost += starved(forecast, state.kind, state.free - taken, left) - state.starved
        if step != state.step:
            cost += self._moved(state, step)
        if opened:
            hosting = forecast.hosting[step][state.kind]
            cost += hosting[state.empty] - hosting[state.empty - opened]
        lost = state.can_host & ~can_host(forecast, state.empty - opened, left) if state.can_host else 0
        return Place(cost, (state.kind if has_scarcity else -1, lost), free_milli, free_memory_mib)

    def losses(self, state: NodeState, cpu_milli: int) -> Losses:
        """What cards of the node cost once the task has its CPU."""
        step = bisect_right(self.forecast.cpu_steps, state.free_cpu_milli - cpu_milli)
        opening = 0
        if state.empty:
            hosting = self.forecast.hosting[step][state.kind]
            opening = hosting[state.empty] - hosting[state.empty - 1]
        return Losses(self.forecast.costs[step], opening)

    def _moved(self, state: NodeState, step: int) -> int:
        """What the node's untouched cards lose when so much CPU is left."""
        before, after = self.forecast.costs[state.step], self.forecast.costs[step]
        moved = 0
        for group in state.groups:
            moved += (after[group.kind][group.free] - before[group.kind][group.free]) * group.count
        if state.kind >= 0 and state.empty:
            hosting = self.forecast.hosting
            moved += hosting[state.step][state.kind][state.empty] - hosting[step][state.kind][state.empty]
        return moved

    def scarcity(self, accepts: int) -> dict[int, int]:
        """By kind of card: the price of one milli for a task that accepts these kinds; () where none is scarce."""
        needed = self.forecast.kept_for_others.get(accepts)
        if needed is None:
            return {}
        demand, free = self.forecast.demand, sum(self._free)
        prices = {}
        for kind, (need, capacity) in enumerate(zip(needed, self.forecast.capacity, strict=True)):
            if need and capacity:
                spare = _SCARCE_BELOW * (self._free[kind] * demand - need * free)
                short = MICRO * (demand * capacity - spare) // (demand * capacity)
                prices[kind] = _SCARCITY * max(0, min(_MOST_SCARCE, short))
        return prices

    def host_price(self, lost: int) -> int:
        """Of a node that can no longer take these hosted: the highest of their prices."""
        if not lost:
            return 0
        price = self._host_prices.get(lost)
        if price is None:
            price = self._host_prices[lost] = max(
                self._price_of(place) for place in range(lost.bit_length()) if lost >> place & 1
            )
        return price

    def _price_of(self, place: int) -> int:
        hosted = self.forecast.hosted[place]
        expected = _EXACT * hosted.weight * sum(self._free)
        chance = min(_EXACT, expected // (self.forecast.demand * max(1, self._hosts[place])))
        return MICRO * self.forecast.host_milli * hosted.gpus * chance**4 // _EXACT**4
