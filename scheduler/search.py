"""Finds the best nodes for one kind of request again and again while the pool fills up.

Within a cycle room only shrinks, and only on nodes that were placed on. So each kind of request keeps its nodes
in a heap by score, takes up the pool's changes when it is next asked, and gives up for good once it did not fit.
"""

from heapq import heapify, heappop, heappush
from typing import TypeAlias

from scheduler.capacity import Ask, PoolRoom
from scheduler.filters import deal_cards, fitting_cards, tasks_on
from scheduler.model import Strategy, TaskPlacement
from scheduler.scoring import Score, rank_cards, score_node

_Entry: TypeAlias = tuple[Score, str, int, int, int]
"""Score, node, its index in the pool, its version when scored, tasks that it holds."""


class Search:
    """All places of one pool for requests of equal needs."""

    def __init__(self, room: PoolRoom, ask: Ask) -> None:
        self._room = room
        self._ask = ask
        self._heap: list[_Entry] | None = None  # made when first needed
        self._seen = 0  # how many of the pool's changes the heap knows
        self._has_failed = False
        self._pack = room.pool.strategy is Strategy.PACK or ask.layout.same_node

    def place(self) -> tuple[TaskPlacement, ...] | None:
        """Take room for all tasks of one request, or for none of them (None)."""
        if self._has_failed:
            return None
        chosen = self._best_nodes()
        if chosen is None:
            self._has_failed = True
            return None
        counts = _fill(chosen, self._ask.tasks) if self._pack else _deal(chosen, self._ask.tasks)
        placed: list[TaskPlacement] = []
        for (_, _, index, _, _), count in zip(chosen, counts, strict=True):
            node = self._room.nodes[index]
            cards = rank_cards(self._room.pool.strategy, fitting_cards(self._ask, node, node.cards))
            hands = deal_cards(self._ask, cards, count, stack=self._room.pool.strategy is Strategy.PACK)
            placed += self._room.place(index, self._ask, hands, first_rank=len(placed))
        return tuple(placed)

    def _best_nodes(self) -> list[_Entry] | None:
        """The best nodes that together hold all tasks; None when all nodes do not.

        To pack, as many as it takes; to spread, one for each task while there are as many.
        """
        heap = self._refresh()
        chosen: list[_Entry] = []
        held = 0
        while heap and (held if self._pack else len(chosen)) < self._ask.tasks:
            entry = heappop(heap)
            _, _, index, version, tasks = entry
            if version == self._room.nodes[index].version:
                chosen.append(entry)
                held += tasks
        return chosen if held >= self._ask.tasks else None

    def _refresh(self) -> list[_Entry]:
        room = self._room
        if self._heap is None:
            self._heap = self._all_entries()
        elif self._seen < len(room.changes):
            for index in set(room.changes[self._seen :]):
                if found := self._score(index):
                    heappush(self._heap, self._entry(index, found))
        self._seen = len(room.changes)
        return self._heap

    def _all_entries(self) -> list[_Entry]:
        """The heap of all open nodes that fit. Nodes in the same state are scored once."""
        least_milli = self._ask.least_milli * self._ask.gpus
        by_state: dict[int, tuple[Score, int] | None] = {}
        heap = []
        for index, node in enumerate(self._room.nodes):
            if node.is_open and node.free_milli >= least_milli:
                state = self._room.state_of(index)
                if state not in by_state:
                    by_state[state] = self._score(index)
                if found := by_state[state]:
                    heap.append(self._entry(index, found))
        heapify(heap)
        return heap

    def _entry(self, index: int, found: tuple[Score, int]) -> _Entry:
        node = self._room.nodes[index]
        return found[0], node.id, index, node.version, found[1]

    def _score(self, index: int) -> tuple[Score, int] | None:
        """The node's score and how many of the request's tasks it holds; None when it holds none."""
        node, ask = self._room.nodes[index], self._ask
        fitting = fitting_cards(ask, node, node.cards) if ask.gpus else []
        held = tasks_on(ask, node, fitting)
        return (score_node(self._room.pool.strategy, ask, node, fitting), held) if held else None


def _fill(chosen: list[_Entry], tasks: int) -> list[int]:
    """Tasks for each node: as many as the first holds, then the next."""
    counts = []
    for entry in chosen:
        counts.append(min(tasks, entry[4]))
        tasks -= counts[-1]
    return counts


def _deal(chosen: list[_Entry], tasks: int) -> list[int]:
    """Tasks for each node: one each in turn, none beyond what it holds."""
    counts = [0] * len(chosen)
    while tasks:
        for place, entry in enumerate(chosen):
            if tasks and counts[place] < entry[4]:
                counts[place] += 1
                tasks -= 1
    return counts
