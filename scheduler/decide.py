"""The decision: which waiting requests start now, and where."""

from collections.abc import Iterable

from scheduler.capacity import PoolRoom
from scheduler.explain import Explainer
from scheduler.model import Node, Placement, Plan, Request, Resources, Snapshot, Waiting
from scheduler.quotas import Ledger, charge_of
from scheduler.search import Search
from scheduler.sizing import find_faults


def decide(snapshot: Snapshot) -> Plan:
    """Place what can start, say of all else why it waits. Same snapshot in, same plan out.

    Requests are considered by priority, then age, then id. One that does not fit does not hold up those
    behind it, so whatever could start does. Placements and waiting requests come in that same order.
    A request that makes no sense, or names a pool that is not there, waits and disturbs no other.
    """
    cycle = _Cycle(snapshot)
    placements: list[Placement] = []
    left: list[Request] = []
    for request in sorted(snapshot.pending, key=queue_order):
        placement = None if request.held else cycle.place(request)
        if placement is None:
            left.append(request)
        else:
            placements.append(placement)
    return Plan(snapshot.version, tuple(placements), tuple(cycle.explain(left)))


def queue_order(request: Request) -> tuple[int, int, str]:
    """Higher priority first, then who queued first, then id."""
    return -request.priority, request.queued_at_us, request.id


class _Cycle:
    """The scratch of one decision: what is left of pools and quotas."""

    def __init__(self, snapshot: Snapshot) -> None:
        nodes: dict[str, list[Node]] = {pool.id: [] for pool in snapshot.pools}
        for node in snapshot.nodes:
            if node.pool_id in nodes:
                nodes[node.pool_id].append(node)
        self._rooms = {pool.id: PoolRoom(pool, nodes[pool.id]) for pool in snapshot.pools}
        self._ledger = Ledger(snapshot.scopes)
        self._shapes: dict[tuple[str, Resources, int], _Shape | None] = {}

    def place(self, request: Request) -> Placement | None:
        """Take room and quota for all tasks of the request, or neither."""
        shape = self._shape_of(request)
        if shape is None or request.kind not in shape.room.pool.kinds:
            return None
        charge = charge_of(request.kind, shape.ask)
        if not self._ledger.allows(request, charge):
            return None
        tasks = shape.search.place()
        if tasks is None:
            return None
        self._ledger.take(request, charge)
        return Placement(request.id, tasks, shape.ask.card_milli)

    def explain(self, left: Iterable[Request]) -> list[Waiting]:
        """Reasons as things stand after all placements, positions from 1 in each pool.

        Held requests are not in line: they come after all others of their pool.
        """
        explainer = Explainer(self._rooms, self._ledger)
        ordered = sorted(left, key=lambda request: request.held)  # stable: keeps the queue's order
        last: dict[str, int] = {}
        waiting = []
        for request in ordered:
            last[request.pool_id] = last.get(request.pool_id, 0) + 1
            waiting.append(Waiting(request.id, last[request.pool_id], explainer.reasons(request)))
        return waiting

    def _shape_of(self, request: Request) -> "_Shape | None":
        key = (request.pool_id, request.resources, request.tasks)
        if key not in self._shapes:
            room = self._rooms.get(request.pool_id)
            is_sound = room is not None and not find_faults(request.resources, request.tasks)
            self._shapes[key] = _Shape(room, request) if room is not None and is_sound else None
        return self._shapes[key]


class _Shape:
    """Requests of one pool with equal needs: they cost the same and fit in the same places."""

    __slots__ = ("ask", "room", "search")

    def __init__(self, room: PoolRoom, request: Request) -> None:
        self.room = room
        self.ask = room.ask(request.resources, request.tasks)
        self.search = Search(room, self.ask)
