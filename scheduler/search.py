"""Finds the best nodes for one kind of request again and again while the pool fills up.

Within a cycle room only shrinks, and only on nodes that were placed on. So each kind of request keeps its nodes
in a heap by score, takes up the pool's changes when it is next asked, and gives up for good once it did not fit.
"""

from heapq import heapify, heappop, heappush

from scheduler.capacity import Ask, PoolRoom
from scheduler.filters import deal_cards, fitting_cards, tasks_on
from scheduler.model import Strategy, TaskPlacement
from scheduler.scoring import Key, rank_cards, score_node

_Entry = tuple[Key, int, int, int]  # score, place of the node in the pool, its version when scored, tasks it holds


class Search:
    """All places of one pool for requests of equal needs."""

    def __init__(self, room: PoolRoom, ask: Ask) -> None:
        self._room = room
        self._ask = ask
        self._heap: list[_Entry] | None = None  # made when first needed
        self._seen = 0  # how many of the pool's changes the heap knows
        self._has_failed = False

    def place(self) -> tuple[TaskPlacement, ...] | None:
        """Take room for all tasks of one request, or for none of them (None)."""
        if self._has_failed:
            return None
        chosen = self._best_nodes()
        if chosen is None:
            self._has_failed = True
            return None
        pack = self._room.pool.strategy is Strategy.PACK
        counts = _fill(chosen, self._ask.tasks) if pack else _deal(chosen, self._ask.tasks)
        placed: list[TaskPlacement] = []
        for (_, index, _, _), count in zip(chosen, counts, strict=True):
            node = self._room.nodes[index]
            cards = rank_cards(self._room.pool.strategy, fitting_cards(self._ask, node, node.cards))
            hands = deal_cards(self._ask, cards, count, stack=pack)
            placed += self._room.place(index, self._ask, hands, first_rank=len(placed))
        return tuple(placed)

    def _best_nodes(self) -> list[_Entry] | None:
        """The best nodes that together hold all tasks; None when all nodes do not.

        To pack, as many as it takes; to spread, one for each task while there are as many.
        """
        heap = self._refresh()
        pack = self._room.pool.strategy is Strategy.PACK
        chosen: list[_Entry] = []
        held = 0
        while heap and (held if pack else len(chosen)) < self._ask.tasks:
            entry = heappop(heap)
            if entry[2] == self._room.nodes[entry[1]].version:
                chosen.append(entry)
                held += entry[3]
        return chosen if held >= self._ask.tasks else None

    def _refresh(self) -> list[_Entry]:
        room = self._room
        if self._heap is None:
            least_milli = self._ask.least_milli
            self._heap = [
                entry
                for index, node in enumerate(room.nodes)
                if node.is_open and node.free_milli >= least_milli and (entry := self._entry(index))
            ]
            heapify(self._heap)
        elif self._seen < len(room.changes):
            for index in set(room.changes[self._seen :]):
                if entry := self._entry(index):
                    heappush(self._heap, entry)
        self._seen = len(room.changes)
        return self._heap

    def _entry(self, index: int) -> _Entry | None:
        node, ask = self._room.nodes[index], self._ask
        fitting = fitting_cards(ask, node, node.cards) if ask.gpus else []
        held = tasks_on(ask, node, fitting)
        if held == 0:
            return None
        return score_node(self._room.pool.strategy, ask, node, fitting), index, node.version, held


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
