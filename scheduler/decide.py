"""The decision: which waiting requests start now and where, what has to leave for them, and why the others wait."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from scheduler.capacity import Ask, Layout, PoolRoom, layout_of
from scheduler.explain import Explainer, Kept
from scheduler.ground import Ground, Tasks
from scheduler.lending import Lending, open_lenders
from scheduler.model import (
    Cause,
    Kind,
    Node,
    Placement,
    Plan,
    Preemption,
    Request,
    Reservation,
    Resources,
    Running,
    Snapshot,
    Strategy,
    Waiting,
)
from scheduler.order import Standing, in_order
from scheduler.preemption import Preemptor
from scheduler.quotas import Amounts, Ledger, charge_of
from scheduler.reservations import Opening, begun, endings, find_opening
from scheduler.search import Search
from scheduler.sizing import find_faults
from scheduler.windows import SECOND_US

PATIENCE_S = 600  # first in line for so long, a request may ask work without a time limit to leave
RESERVATION_TRIES = 4  # blocked requests of a pool that are looked at until one can have a reservation


def decide(snapshot: Snapshot) -> Plan:
    """Place what can start, say of all else why it waits. Same snapshot in, same plan out.

    Requests are served by priority, then groups under their guarantee, then the weighted share of what each group has
    used, then age, then id. Each tries what is free in its pool, then cards lent to its queue, then room that is about
    to come free, then work that must give way to it. One that does not fit holds up those behind it only where they
    would delay its reservation. A request that makes no sense, or names a pool that is not there, waits and disturbs
    no other. Pools that lend are served before those that borrow.
    """
    cycle = _Cycle(snapshot)
    cycle.run()
    return Plan(
        snapshot.version,
        tuple(cycle.placements),
        tuple(cycle.explain()),
        tuple(cycle.preemptions),
        tuple(cycle.reservations),
    )


class _Shape:
    """Requests of one pool with equal needs: they cost the same and fit in the same places."""

    __slots__ = ("_coming", "_coming_seen", "ask", "claim_failed", "ground", "lasting", "now")

    def __init__(self, ground: Ground, request: Request) -> None:
        self.ground = ground
        self.ask = ground.now.ask(request.resources, request.tasks, layout_of(request))
        self.now = Search(ground.now, self.ask)
        self.lasting: Search | None = None
        self._coming: Search | None = None
        self._coming_seen = 0
        self.claim_failed: dict[bool, int] = {}  # by whether it lasts: how often room had been added then

    def search(self, *, lasts: bool) -> tuple[Search, PoolRoom]:
        room = self.ground.lasting
        if room is None or not lasts:
            return self.now, self.ground.now
        if self.lasting is None:
            self.lasting = Search(room, self.ask)
        return self.lasting, room

    def coming_search(self, room: PoolRoom) -> Search:
        """Made anew whenever room has been added: a search takes it that room only shrinks."""
        if self._coming is None or self._coming_seen != self.ground.leavings:
            self._coming, self._coming_seen = Search(room, self.ask), self.ground.leavings
        return self._coming


class _Cycle:
    """The scratch of one decision."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.placements: list[Placement] = []
        self.preemptions: list[Preemption] = []
        self.reservations: list[Reservation] = []
        self._waiting: list[Request] = []
        self._shapes: dict[tuple[str, int, int, Layout], _Shape | None] = {}
        self._needs: dict[Resources, int] = {}
        self._needs_by_object: dict[int, int] = {}
        self._blocked: set[tuple[object, ...]] = set()  # like these, nothing was found for: nor is it for the next
        self._grounds = _grounds_of(snapshot)
        self._held = _held_in(snapshot, self._grounds)
        self._ledger = Ledger(snapshot.scopes)
        self._promised: list[tuple[Request, Amounts]] = []  # charged for claims and reservations, while deciding
        self._standing = Standing(snapshot, self._grounds)
        self._lending = Lending(snapshot, self._grounds, self._held)
        self._preemptor = Preemptor(snapshot, self._held, self._standing, self._lending)
        self._kept: dict[str, list[Kept]] = {}  # by pool: for whom room is kept
        self._reserved: dict[str, tuple[Request, Amounts, int]] = {}  # by pool: for whom, until when
        self._tries: dict[str, int] = {}
        self._begun: list[tuple[Request, Tasks]] = []  # work with a time limit that starts in this cycle

    def run(self) -> None:
        for pool_id, works in self._held.items():
            for work in works:
                if work.is_leaving:
                    self._grounds[pool_id].expect(work)
        for work in self._lending.closing():
            self._ask_to_leave(work, None)
        if self._lending.rules:
            self._serve_lenders_first()
        else:
            for request in self._ordered(self._snapshot.pending):
                self._serve_own(request, may_reserve=True)

    def _serve_lenders_first(self) -> None:
        lending = self._lending
        first = [one for one in self._snapshot.pending if self._is_served_first(one)]
        left: list[Request] = []
        for request in self._ordered(first):
            if request.pool_id not in lending.borrowers:
                self._serve_own(request, may_reserve=True)
            elif not self._serve_own(request, may_reserve=False, may_wait=False):
                left.append(request)
        self._refill_reserves()
        late = {one.id for one in left}
        behind = [one for one in self._snapshot.pending if not self._is_served_first(one)]
        for request in self._ordered([*left, *behind]):
            self._serve_borrower(request, has_tried=request.id in late)

    def explain(self) -> list[Waiting]:
        """Reasons as things stand after all placements, pool by pool, positions from 1 in each.

        Held requests are not in line: they come after all others of their pool.
        """
        for request, charge in self._promised:
            self._ledger.give(request, charge)
        explainer = Explainer(self._grounds, self._ledger, self._lending, self._kept)
        last: dict[str, int] = {}
        waiting = []
        for request in sorted(self._waiting, key=lambda one: (one.pool_id, one.held)):  # stable: the order of service
            last[request.pool_id] = last.get(request.pool_id, 0) + 1
            waiting.append(Waiting(request.id, last[request.pool_id], explainer.reasons(request)))
        return waiting

    def _is_served_first(self, request: Request) -> bool:
        lending = self._lending
        return request.pool_id in lending.lenders or request.pool_id not in lending.borrowers

    def _ordered(self, pending: Iterable[Request]) -> Iterator[Request]:
        return in_order(pending, self._standing, self._card_milli)

    def _card_milli(self, request: Request) -> int:
        shape = self._shape_of(request)
        return shape.ask.card_milli if shape is not None else 0

    def _serve_own(self, request: Request, *, may_reserve: bool, may_wait: bool = True) -> bool:
        """Serve the request on its own pool. True when it was given room, now or soon."""
        shape = self._eligible(request)
        done = shape is not None and (self._place(request, shape) or self._make_room(request, shape))
        if not done and shape is not None and may_reserve:
            done = self._reserve(request, shape)
            if not done:
                self._blocked.add(self._likeness(request, shape))
        if not done and may_wait:
            self._waiting.append(request)
        return done

    def _serve_borrower(self, request: Request, *, has_tried: bool) -> None:
        """Its own pool's free room, else lent cards, else what its own pool may take from others."""
        shape = self._eligible(request)
        if shape is None:
            self._waiting.append(request)
            return
        if not has_tried and self._place(request, shape):
            return
        if self._borrow(request, shape):
            return
        if (not has_tried and self._make_room(request, shape)) or self._reserve(request, shape):
            return
        self._blocked.add(self._likeness(request, shape))
        self._waiting.append(request)

    def _eligible(self, request: Request) -> _Shape | None:
        """The request's shape when nothing but room keeps it from starting, and there may be some."""
        shape = None if request.held else self._shape_of(request)
        if shape is None or request.kind not in shape.ground.pool.kinds:
            return None
        if self._blocked and self._likeness(request, shape) in self._blocked:
            return None
        return shape if self._is_in_quota(request, shape) else None

    def _is_in_quota(self, request: Request, shape: _Shape) -> bool:
        charge = charge_of(request.kind, shape.ask)
        reserved = self._reserved.get(request.pool_id)
        if reserved is None or self._lasts(request):
            return self._ledger.allows(request, charge)
        self._ledger.give(reserved[0], reserved[1])  # it ends before the reservation starts
        is_allowed = self._ledger.allows(request, charge)
        self._ledger.take(reserved[0], reserved[1])
        return is_allowed

    def _lasts(self, request: Request) -> bool:
        """True when the request would still run when its pool's reservation starts."""
        reserved = self._reserved.get(request.pool_id)
        if reserved is None or request.time_limit_s is None:
            return True
        return self._snapshot.now_us + request.time_limit_s * SECOND_US > reserved[2]

    def _place(self, request: Request, shape: _Shape) -> bool:
        lasts = self._lasts(request)
        search, room = shape.search(lasts=lasts)
        tasks = search.place()
        if tasks is None:
            return False
        shape.ground.settle(shape.ask, tasks, room, lasts=lasts)
        self._charge(request, shape.ask)
        if request.kind is Kind.ENVIRONMENT:
            self._lending.note_environment(request.pool_id, tasks)
        self._start(request, Placement(request.id, tasks, shape.ask.card_milli))
        return True

    def _borrow(self, request: Request, shape: _Shape) -> bool:
        loan = self._lending.lend(request)
        if loan is None:
            return False
        ask = shape.ask
        if not any(ask.grants):  # no card of its own pool to measure it by
            ask = replace(ask, card_milli=loan.card_milli)
        self._charge(request, ask)
        self._start(request, Placement(request.id, loan.tasks, ask.card_milli, loan.rule_id))
        return True

    def _start(self, request: Request, placement: Placement) -> None:
        self.placements.append(placement)
        if request.time_limit_s is not None:
            self._begun.append((request, placement.tasks))

    def _make_room(self, request: Request, shape: _Shape, *, waited_out: bool = False) -> bool:
        """Claim room that comes free, else ask work to leave that must give way, and claim its room."""
        lasts = self._lasts(request)
        if self._claim(request, shape, lasts=lasts):
            return True
        ground = shape.ground
        victims = self._preemptor.find(request, shape.ask, ground, lasts=lasts, waited_out=waited_out)
        if not victims:
            return False
        for work in victims:
            self._ask_to_leave(work, request)
        return self._claim(request, shape, lasts=lasts)

    def _claim(self, request: Request, shape: _Shape, *, lasts: bool) -> bool:
        ground = shape.ground
        if ground.coming is None or shape.claim_failed.get(lasts) == ground.leavings:
            return False
        tasks = ground.claim(shape.ask, shape.coming_search(ground.coming), lasts=lasts)
        if tasks is None:
            shape.claim_failed[lasts] = ground.leavings
            return False
        self._promise(request, shape, tasks)
        self._kept.setdefault(request.pool_id, []).append(Kept(request, None))
        self._waiting.append(request)
        return True

    def _reserve(self, request: Request, shape: _Shape) -> bool:
        """Keep room for the first blocked request, if it can be said when it starts. True: it needs no more care."""
        pool_id, ground = request.pool_id, shape.ground
        if pool_id in self._reserved or self._tries.get(pool_id, 0) >= RESERVATION_TRIES:
            return False
        works, now_us = [*self._held.get(pool_id, ()), *self._begun_in(ground)], self._snapshot.now_us
        if not works:
            return False
        self._tries[pool_id] = self._tries.get(pool_id, 0) + 1
        opening = find_opening(shape.ask, ground, endings(works, now_us))
        if opening is None and now_us - request.queued_at_us >= PATIENCE_S * SECOND_US:
            if self._make_room(request, shape, waited_out=True):
                return True
            at_once = self._preemptor.patient_victims(request, shape.ask, ground)
            if at_once:
                opening = find_opening(shape.ask, ground, endings(works, now_us, at_once))
        if opening is None:
            return False
        self._keep_until(request, shape, opening)
        return True

    def _begun_in(self, ground: Ground) -> list[Running]:
        """What starts on the pool's nodes in this cycle and will end by its time limit."""
        now_us = self._snapshot.now_us
        return [
            begun(request, tasks, now_us)
            for request, tasks in self._begun
            if any(task.node_id in ground.index_of for task in tasks)
        ]

    def _keep_until(self, request: Request, shape: _Shape, opening: Opening) -> None:
        shape.ground.reserve(opening.spare)
        charge = charge_of(request.kind, shape.ask)
        self._reserved[request.pool_id] = (request, charge, opening.at_us)
        self._promise(request, shape, opening.tasks)
        self._kept.setdefault(request.pool_id, []).insert(0, Kept(request, opening.at_us))
        nodes = tuple(sorted({task.node_id for task in opening.tasks}))
        self.reservations.append(Reservation(request.id, nodes, opening.at_us))
        self._waiting.append(request)

    def _promise(self, request: Request, shape: _Shape, tasks: Tasks) -> None:
        """Nobody behind it may use the quota that the request needs for its promised room."""
        charge = charge_of(request.kind, shape.ask)
        self._ledger.take(request, charge)
        self._promised.append((request, charge))
        if request.kind is Kind.ENVIRONMENT:
            self._lending.note_environment(request.pool_id, tasks)

    def _charge(self, request: Request, ask: Ask) -> None:
        self._ledger.take(request, charge_of(request.kind, ask))
        self._standing.charge(request, ask, ask.card_milli)

    def _ask_to_leave(self, work: Running, request: Request | None) -> None:
        holding = [pool_id for pool_id, works in self._held.items() if work in works]
        is_lent = any(pool_id != work.pool_id for pool_id in holding)
        self._preemptor.take(work)
        for pool_id in holding:
            self._grounds[pool_id].expect(work)
        cause = Cause.RECLAIMED if is_lent else Cause.PREEMPTED
        self.preemptions.append(Preemption(work.id, cause, request.id if request is not None else None))

    def _refill_reserves(self) -> None:
        for pool_id in self._lending.reserved_pools:
            missing = self._lending.reserve_gap(pool_id)
            if missing > 0:
                for work in self._preemptor.for_reserve(self._grounds[pool_id], missing):
                    self._ask_to_leave(work, None)

    def _shape_of(self, request: Request) -> _Shape | None:
        needs = self._needs_by_object.get(id(request.resources))
        if needs is None:  # rows that are like one another often share the object, and hashing it costs more
            needs = self._needs.setdefault(request.resources, len(self._needs))
            self._needs_by_object[id(request.resources)] = needs
        key = (request.pool_id, needs, request.tasks, layout_of(request))
        if key not in self._shapes:
            ground = self._grounds.get(request.pool_id)
            is_sound = ground is not None and not find_faults(request.resources, request.tasks)
            self._shapes[key] = _Shape(ground, request) if ground is not None and is_sound else None
        return self._shapes[key]

    def _likeness(self, request: Request, shape: _Shape) -> tuple[object, ...]:
        return (
            id(shape),
            request.group_id,
            self._ledger.key_of(request),
            request.kind,
            request.priority,
            request.time_limit_s,
            request.preemptible,
        )


def _grounds_of(snapshot: Snapshot) -> dict[str, Ground]:
    """A pool that lends right now packs its own work, so that whole cards come free to lend."""
    rows: dict[str, list[Node]] = {pool.id: [] for pool in snapshot.pools}
    for node in snapshot.nodes:
        if node.pool_id in rows:
            rows[node.pool_id].append(node)
    lenders = open_lenders(snapshot)
    grounds = {}
    for pool in snapshot.pools:
        packs = pool.id in lenders and pool.strategy is not Strategy.PACK
        grounds[pool.id] = Ground(replace(pool, strategy=Strategy.PACK) if packs else pool, rows[pool.id])
    return grounds


def _held_in(snapshot: Snapshot, grounds: dict[str, Ground]) -> dict[str, list[Running]]:
    """By pool, the running work that holds something on its nodes, by id."""
    pool_of = {node_id: pool_id for pool_id, ground in grounds.items() for node_id in ground.index_of}
    held: dict[str, list[Running]] = {}
    for work in sorted(snapshot.running, key=lambda one: one.id):
        for pool_id in {pool_of.get(task.node_id) for task in work.tasks}:
            if pool_id is not None:
                held.setdefault(pool_id, []).append(work)
    return held
