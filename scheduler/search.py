"""Finds the best nodes for one kind of request again and again while the pool fills up.

Within a cycle room only shrinks, and only on nodes that were placed on. So each kind of request keeps its nodes
in heaps by score, takes up the pool's changes when it is next asked, and gives up until room comes back once it did
not fit. There is a heap for each lane of the pool's outlook: the price of a lane moves all its nodes alike.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import TypeAlias

from scheduler.capacity import ANYWHERE, Ask, CardRoom, PoolRoom
from scheduler.filters import deal_cards, fitting_cards, tasks_on
from scheduler.model import Strategy, TaskPlacement
from scheduler.outlook import NO_LANE, Lane
from scheduler.scoring import Score, rank_packed, rank_spread, score_packed, score_spread

_Entry: TypeAlias = tuple[Score, int, int, int, "Iterator[int] | None"]
"""Score without the lane's price, index of the node, its version when scored, tasks that it holds; and more nodes that
were in the same state then, in order: each takes the place of the one before."""

_Found: TypeAlias = tuple[Score, Lane, int]
"""Score without the lane's price, lane, tasks that the node holds."""


class Search:
    """All places of one pool for requests of equal needs."""

    def __init__(self, room: PoolRoom, ask: Ask) -> None:
        self._room = room
        self._ask = ask
        self._outlook = room.outlook()
        self._lanes: dict[Lane, list[_Entry]] | None = None  # made when first needed
        self._seen = 0  # how many of the pool's changes the heaps know
        self._changed: set[int] = set()  # nodes that have entries of their own
        self._failed_at = -1  # how often room had come back then
        self._packs = room.pool.strategy is Strategy.PACK
        self._fills = self._packs or ask.layout.same_node
        self._kinds = ask.accepts if ask.gpus else room.any_node  # as bits: of no use are nodes with others only
        self._least_milli = ask.least_milli * ask.gpus  # on one node; lets full ones be skipped unseen
        self._is_single = ask.tasks == 1 and ask.layout is ANYWHERE

    def place(self) -> tuple[TaskPlacement, ...] | None:
        """Take room for all tasks of one request, or for none of them (None)."""
        if self._failed_at == self._room.releases:
            return None
        chosen = self._best_nodes()
        if chosen is None:
            self._failed_at = self._room.releases
            return None
        counts = _fill(chosen, self._ask.tasks) if self._fills else _deal(chosen, self._ask.tasks)
        placed: list[TaskPlacement] = []
        for (_, index, _, _, _), count in zip(chosen, counts, strict=True):
            hands = (
                deal_cards(self._ask, self._cards(index), count, stack=self._packs) if self._ask.gpus else [[]] * count
            )
            placed += self._room.place(index, self._ask, hands, first_rank=len(placed))
        return tuple(placed)

    def _cards(self, index: int) -> list[CardRoom]:
        """The node's cards that fit, best first."""
        room, ask, node = self._room, self._ask, self._room.nodes[index]
        fitting = fitting_cards(ask, node, node.cards)
        if not self._packs:
            return rank_spread(fitting)
        return rank_packed(room.outlook(), ask, room.node_state(index), fitting)

    def _best_nodes(self) -> list[_Entry] | None:
        """The best nodes that together hold all tasks; None when all nodes do not.

        To pack, as many as it takes; to spread, one for each task while there are as many.
        """
        lanes = self._priced(self._refresh())
        chosen: list[_Entry] = []
        held = 0
        while (held if self._fills else len(chosen)) < self._ask.tasks:
            entry = self._pop(lanes)
            if entry is None:
                break
            chosen.append(entry)
            held += entry[3]
        if held >= self._ask.tasks:
            return chosen
        self._lanes = None  # what was popped is to be found again should room come back
        return None

    def _priced(self, lanes: dict[Lane, list[_Entry]]) -> list[tuple[int, list[_Entry]]]:
        """The heaps, each with what its lane costs now."""
        if len(lanes) == 1 and NO_LANE in lanes:
            return [(0, lanes[NO_LANE])]
        outlook, ask = self._room.outlook(), self._ask
        scarcity = outlook.scarcity(ask.accepts) if ask.gpus else {}
        priced = []
        for (kind, lost), heap in lanes.items():
            if not heap:
                continue
            price = outlook.host_price(lost)
            if kind in scarcity and (takes := ask.takes[kind]) is not None:
                price += scarcity[kind] * takes[2] * ask.gpus
            priced.append((price, heap))
        return priced

    def _pop(self, lanes: list[tuple[int, list[_Entry]]]) -> _Entry | None:
        """The best entry that is up to date, taken off its heap."""
        nodes = self._room.nodes
        best: tuple[int, Score, int] | None = None
        source: list[_Entry] = []
        for price, heap in lanes:
            while heap and heap[0][2] != nodes[heap[0][1]].version:
                self._take(heap)
            if not heap:
                continue
            score, index = heap[0][0], heap[0][1]
            cost = score[0] + price
            if best is None or cost < best[0] or (cost == best[0] and (score[1:], index) < (best[1][1:], best[2])):
                best, source = (cost, score, index), heap
        return self._take(source) if source else None

    def _take(self, heap: list[_Entry]) -> _Entry:
        """Pop the first entry; the next node of those that were alike comes in its place."""
        first = heap[0]
        if first[4] is not None:
            for index in first[4]:
                if index not in self._changed:
                    entry = first[0], index, self._room.nodes[index].version, first[3], first[4]
                    return heapreplace(heap, entry)
        return heappop(heap)

    def _refresh(self) -> dict[Lane, list[_Entry]]:
        room = self._room
        if self._lanes is None:
            self._lanes = self._all_entries()
        elif self._seen < len(room.changes):
            changed = set(room.changes[self._seen :])
            self._changed |= changed
            least_milli, cpu_milli, kinds, kinds_on = self._least_milli, self._ask.cpu_milli, self._kinds, room.kinds_on
            for index in changed:
                node = room.nodes[index]
                if node.free_milli < least_milli or node.free_cpu_milli < cpu_milli or not kinds & kinds_on[index]:
                    continue
                if node.is_open and (found := self._score(index)) is not None:
                    heappush(self._lanes.setdefault(found[1], []), (found[0], index, node.version, found[2], None))
        self._seen = len(room.changes)
        return self._lanes

    def _all_entries(self) -> dict[Lane, list[_Entry]]:
        """The heaps of all open nodes that fit. Nodes in the same state are scored once."""
        lanes: dict[Lane, list[_Entry]] = {}
        nodes = self._room.nodes
        self._changed.clear()
        for free_milli, alike in self._room.alike():
            if free_milli < self._least_milli:
                continue
            some = next(iter(alike))
            if self._kinds & self._room.kinds_on[some] and (found := self._score(some)):
                more = iter(sorted(alike)) if len(alike) > 1 else None
                first = next(more) if more is not None else some
                lanes.setdefault(found[1], []).append((found[0], first, nodes[first].version, found[2], more))
        for heap in lanes.values():
            heapify(heap)
        return lanes

    def _score(self, index: int) -> _Found | None:
        """The node's score and lane, and how many of the request's tasks it holds; None when it holds none."""
        room, ask = self._room, self._ask
        node = room.nodes[index]
        held = 1
        if not (self._packs and self._is_single):
            fitting = fitting_cards(ask, node, node.cards) if ask.gpus else []
            held = tasks_on(ask, node, fitting)
            if not held:
                return None
            if not self._packs:
                return score_spread(ask, node, fitting), NO_LANE, held
        found = score_packed(self._outlook, ask, node, room.node_state(index))
        return None if found is None else (*found, held)


def _fill(chosen: list[_Entry], tasks: int) -> list[int]:
    """Tasks for each node: as many as the first holds, then the next."""
    counts = []
    for entry in chosen:
        counts.append(min(tasks, entry[3]))
        tasks -= counts[-1]
    return counts


def _deal(chosen: list[_Entry], tasks: int) -> list[int]:
    """Tasks for each node: one each in turn, none beyond what it holds."""
    counts = [0] * len(chosen)
    while tasks:
        for place, entry in enumerate(chosen):
            if tasks and counts[place] < entry[3]:
                counts[place] += 1
                tasks -= 1
    return counts
