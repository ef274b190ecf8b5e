"""When those that wait may start: a range, from the time limits of what runs and of those ahead.

The earliest time is when the request would fit if nobody else waited. The latest is its turn when all ahead of it start
in order, each as soon as it fits, run to their limits, and nobody comes in between. Work without a time limit never
ends here, so some starts cannot be said.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from scheduler.capacity import Ask, PoolRoom
from scheduler.filters import deal_cards, fitting_cards, room_on
from scheduler.ground import Ground, release, touch
from scheduler.model import Request, Running, TaskPlacement
from scheduler.reservations import begun, first_fit

LOOKED_AT: Final = 50  # requests of a pool, from the first in line

Range: TypeAlias = tuple[int | None, int | None]


def estimate(
    ground: Ground, line: Sequence[tuple[Request, Ask]], ends: Sequence[tuple[int, Running]], now_us: int
) -> dict[str, Range]:
    """Earliest and latest start of the first requests in line, by id. ``ends``: what will give its room back, in order;
    the line has only requests that nothing but room keeps waiting."""
    if not ends:
        return {}
    turns = _Turns(ground, ends, now_us)
    alone: dict[int, int | None] = {}
    found: dict[str, Range] = {}
    goes_on = True
    for request, ask in line[:LOOKED_AT]:
        if id(ask) not in alone:
            alone[id(ask)] = first_fit(ask, ground, ends)
        latest_us = turns.next_start(request, ask) if goes_on else None
        goes_on = latest_us is not None
        found[request.id] = alone[id(ask)], latest_us
    return found


class _Turns:
    """The pool as time goes on and one request after the other starts."""

    def __init__(self, ground: Ground, ends: Iterable[tuple[int, Running]], now_us: int) -> None:
        self._ground = ground
        self._room: PoolRoom = ground.twin(ground.coming or ground.bare or ground.now)
        self._at_us = now_us
        self._events = [(at_us, work.id, work) for at_us, work in ends]
        heapify(self._events)
        self._views: dict[int, _View] = {}  # asks are told apart by identity: requests of equal needs share theirs

    def next_start(self, request: Request, ask: Ask) -> int | None:
        """When the next in line fits; it then takes its room until its time limit. None: never."""
        view = self._views.get(id(ask))
        if view is None:
            view = self._views[id(ask)] = _View(ask, self._room)
        while not view.fits():
            if not self._events:
                return None
            at_us = self._events[0][0]
            while self._events and self._events[0][0] == at_us:
                self._end(heappop(self._events)[2])
            self._at_us = max(self._at_us, at_us)
        work = begun(request, view.take(), self._at_us)
        if work.ends_at_us is not None:
            heappush(self._events, (work.ends_at_us, work.id, work))
        return self._at_us

    def _end(self, work: Running) -> None:
        for task in work.tasks:
            index = self._ground.index_of.get(task.node_id)
            if index is not None:
                release(self._room.nodes[index], work, task)
                touch(self._room, index)


class _View:
    """How many tasks of one kind each node holds, kept up to date with the room's changes."""

    def __init__(self, ask: Ask, room: PoolRoom) -> None:
        self._ask, self._room = ask, room
        self._seen = len(room.changes)
        self._held: dict[int, int] = {}
        for index, node in enumerate(room.nodes):
            if node.is_open and (held := room_on(ask, node)):
                self._held[index] = held
        self._total = sum(self._held.values())

    def fits(self) -> bool:
        room = self._room
        for index in set(room.changes[self._seen :]):
            if room.nodes[index].is_open:
                held = room_on(self._ask, room.nodes[index])
                self._total += held - self._held.get(index, 0)
                self._held[index] = held
        self._seen = len(room.changes)
        return self._total >= self._ask.tasks

    def take(self) -> tuple[TaskPlacement, ...]:
        """Room for all tasks, on the nodes that hold most of them."""
        ask, room = self._ask, self._room
        placed: list[TaskPlacement] = []
        for index in sorted(self._held, key=lambda one: (-self._held[one], room.nodes[one].id)):
            count = min(self._held[index], ask.tasks - len(placed))
            if count:
                node = room.nodes[index]
                cards = sorted(fitting_cards(ask, node, node.cards), key=lambda card: (card.free_milli, card.id))
                hands = deal_cards(ask, cards, count, stack=True)
                placed += room.place(index, ask, hands, first_rank=len(placed))
        return tuple(placed)
