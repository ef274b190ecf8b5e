"""How much worse a pool gets for the work that usually comes when one task goes to a node. For packing only.

The cost of a place has two parts. What the node itself loses is known from the node alone and changes only with it
(`scheduler.scoring`). What the pool loses, cards of a scarce model or a node for many-card tasks, has a price that
every placement moves (`Outlook.scarcity`, `Outlook.host_price`); it is the same for all nodes of one `Lane`.
"""

from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from scheduler.forecast import MICRO, Forecast

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
    cards: int


class NodeState:
    """A node in numbers, made once for each ``version`` of it. ``kind``: that of most of its cards, -1 without any."""

    __slots__ = ("can_host", "empty", "free", "free_cpu_milli", "groups", "kind", "starved", "step", "version")

    def __init__(
        self, forecast: Forecast, version: int, free_cpu_milli: int, kind: int, groups: tuple[CardGroup, ...]
    ) -> None:
        self.version = version
        self.free_cpu_milli = free_cpu_milli
        self.kind = kind
        self.groups = groups
        self.free = self.empty = 0
        for _, _, _, free, is_empty, cards in groups:
            self.free += free * cards
            if is_empty:
                self.empty += cards
        self.step = bisect_right(forecast.cpu_steps, free_cpu_milli)
        self.starved = starved(forecast, kind, self.free, free_cpu_milli) if self.free else 0
        self.can_host = forecast.can_host(self.empty, free_cpu_milli) if self.empty else 0


def starved(forecast: Forecast, kind: int, free_milli: int, free_cpu_milli: int) -> int:
    """What of the node's free cards it has no CPU for, in millionths of a card."""
    if kind < 0:
        return 0
    cpu, gpu = forecast.cpu_of_gpu[kind]
    missing = free_milli * cpu - free_cpu_milli * gpu
    return missing * MICRO // cpu if missing > 0 else 0


class Outlook:
    """One view of a pool through its forecast, kept in step with the view by `leave` and `enter`."""

    def __init__(self, forecast: Forecast) -> None:
        self.forecast = forecast
        self._free = [0] * len(forecast.capacity)
        self._hosts = [0] * len(forecast.hosted)
        self._host_prices: list[int] = []  # made when first asked after a change

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
        for _, _, kind, free, _, cards in state.groups:
            self._free[kind] += sign * free * cards
        for place in _places(state.can_host):
            self._hosts[place] += sign
        self._host_prices.clear()

    def step_after(self, state: NodeState, cpu_milli: int) -> int:
        """The step of free CPU that the node comes to when a task takes so much of it."""
        steps = self.forecast.cpu_steps
        return bisect_right(steps, state.free_cpu_milli - cpu_milli) if steps else 0

    def opening(self, state: NodeState, step: int, cards: int = 1) -> int:
        """What it costs that so many empty cards of the node are no longer there for many-card tasks."""
        if not self.forecast.hosting or not state.empty:
            return 0
        hosting = self.forecast.hosting[step][state.kind]
        return hosting[state.empty] - hosting[state.empty - cards]

    def beside(self, state: NodeState, cpu_milli: int, step: int, taken: int) -> int:
        """What the node loses beside the cards that are taken, ``taken`` thousandths in all: CPU for the others."""
        cost = -state.starved
        if state.free:
            cost += starved(self.forecast, state.kind, state.free - taken, state.free_cpu_milli - cpu_milli)
        return cost + self._moved(state, step) if step != state.step else cost

    def lost_hosts(self, state: NodeState, cpu_milli: int, opened: int) -> int:
        """What the node can no longer host, as bits, with so many fewer empty cards."""
        if not state.can_host:
            return 0
        return state.can_host & ~self.forecast.can_host(state.empty - opened, state.free_cpu_milli - cpu_milli)

    def _moved(self, state: NodeState, step: int) -> int:
        """What the node's cards lose when it comes to another step of free CPU."""
        before, after = self.forecast.costs[state.step], self.forecast.costs[step]
        moved = 0
        for _, _, kind, free, _, cards in state.groups:
            moved += (after[kind][free] - before[kind][free]) * cards
        if state.empty and self.forecast.hosting:
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
        if not self._host_prices:
            free, demand = sum(self._free), self.forecast.demand
            scale = MICRO * self.forecast.host_milli
            for hosted, hosts in zip(self.forecast.hosted, self._hosts, strict=True):
                chance = min(_EXACT, _EXACT * hosted.weight * free // (demand * max(1, hosts)))
                self._host_prices.append(scale * hosted.gpus * chance**4 // _EXACT**4)
        return max(self._host_prices[place] for place in _places(lost))


@lru_cache(maxsize=4096)
def _places(bits: int) -> tuple[int, ...]:
    return tuple(place for place in range(bits.bit_length()) if bits >> place & 1)
