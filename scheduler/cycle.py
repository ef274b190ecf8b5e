"""One cycle of decisions: who is served when, and from which room."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from scheduler.capacity import Ask
from scheduler.explain import Kept
from scheduler.ground import Ground, Tasks, grounds_of, held_in
from scheduler.lending import Lending, open_lenders
from scheduler.model import (
    Cause,
    Kind,
    Placement,
    Preemption,
    Request,
    Reservation,
    Running,
    Snapshot,
)
from scheduler.order import Standing, in_order
from scheduler.preemption import Preemptor
from scheduler.quotas import Amounts, Ledger, charge_of
from scheduler.reservations import Opening, begun, endings, find_opening
from scheduler.shapes import Shape, Shapes
from scheduler.windows import SECOND_US

PATIENCE_S: Final = 600  # first in line for so long, a request may ask work without a time limit to leave
RESERVATION_TRIES: Final = 4  # blocked requests of a pool that are looked at until one can have a reservation


class Cycle:
    """The scratch of one decision."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.placements: list[Placement] = []
        self.preemptions: list[Preemption] = []
        self.reservations: list[Reservation] = []
        self.waiting: list[Request] = []
        self._blocked: set[tuple[object, ...]] = set()  # like these, nothing was found for: nor is it for the next
        self.grounds = grounds_of(snapshot, open_lenders(snapshot))
        self._held = held_in(snapshot, self.grounds)
        self.shapes = Shapes(self.grounds)
        self.ledger = Ledger(snapshot.scopes)
        self.promised: list[tuple[Request, Amounts]] = []  # charged for claims and reservations, while deciding
        self._standing = Standing(snapshot, self.grounds)
        self.lending = Lending(snapshot, self.grounds, self._held)
        self._preemptor = Preemptor(snapshot, self._held, self._standing, self.lending)
        self.kept: dict[str, list[Kept]] = {}  # by pool: for whom room is kept
        self.reserved: dict[str, tuple[Request, Amounts, int]] = {}  # by pool: for whom, until when
        self._tries: dict[str, int] = {}
        self.claims: list[tuple[Request, Tasks]] = []
        self._asked: set[str] = set()  # running work that is asked to leave in this cycle
        self._begun: list[tuple[Request, Tasks]] = []  # work with a time limit that starts in this cycle

    def run(self) -> None:
        for pool_id, works in self._held.items():
            for work in works:
                if work.is_leaving:
                    self.grounds[pool_id].expect(work)
        for work in self.lending.closing():
            self._ask_to_leave(work, None)
        if self.lending.rules:
            self._serve_lenders_first()
        else:
            for request in self._ordered(self._snapshot.pending):
                self._serve_own(request, may_reserve=True)

    def _serve_lenders_first(self) -> None:
        lending = self.lending
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

    def _is_served_first(self, request: Request) -> bool:
        lending = self.lending
        return request.pool_id in lending.lenders or request.pool_id not in lending.borrowers

    def _ordered(self, pending: Iterable[Request]) -> Iterator[Request]:
        return in_order(pending, self._standing, self._card_milli)

    def _card_milli(self, request: Request) -> int:
        shape = self.shapes.of(request)
        return shape.ask.card_milli if shape is not None else 0

    def _serve_own(self, request: Request, *, may_reserve: bool, may_wait: bool = True) -> bool:
        """Serve the request on its own pool. True when it was given room, now or soon."""
        shape = self.waits_for_room(request)
        done = False
        if shape is not None and (like := self._likeness(request, shape)) not in self._blocked:
            done = self._place(request, shape) or self._make_room(request, shape)
            if may_reserve and not done:
                done = self._reserve(request, shape)
                if not done:
                    self._blocked.add(like)
        if not done and may_wait:
            self.waiting.append(request)
        return done

    def _serve_borrower(self, request: Request, *, has_tried: bool) -> None:
        """Its own pool's free room, else lent cards, else what its own pool may take from others."""
        shape = self.waits_for_room(request)
        if shape is None:
            self.waiting.append(request)
            return
        like = self._likeness(request, shape)
        is_blocked = like in self._blocked
        if not (is_blocked or has_tried) and self._place(request, shape):
            return
        if self._borrow(request, shape):
            return
        if not is_blocked:
            if (not has_tried and self._make_room(request, shape)) or self._reserve(request, shape):
                return
            self._blocked.add(like)
        self.waiting.append(request)

    def waits_for_room(self, request: Request) -> Shape | None:
        """The request's shape when nothing but room keeps it from starting."""
        shape = None if request.held else self.shapes.of(request)
        if shape is None or request.kind not in shape.ground.pool.kinds:
            return None
        return shape if self._is_in_quota(request, shape) else None

    def _is_in_quota(self, request: Request, shape: Shape) -> bool:
        charge = charge_of(request.kind, shape.ask)
        reserved = self.reserved.get(request.pool_id)
        if reserved is None or self._lasts(request):
            return self.ledger.allows(request, charge)
        self.ledger.give(reserved[0], reserved[1])  # it ends before the reservation starts
        is_allowed = self.ledger.allows(request, charge)
        self.ledger.take(reserved[0], reserved[1])
        return is_allowed

    def _lasts(self, request: Request) -> bool:
        """True when the request would still run when its pool's reservation starts."""
        reserved = self.reserved.get(request.pool_id)
        if reserved is None or request.time_limit_s is None:
            return True
        return self._snapshot.now_us + request.time_limit_s * SECOND_US > reserved[2]

    def _place(self, request: Request, shape: Shape) -> bool:
        lasts = self._lasts(request)
        search, room = shape.search(lasts=lasts)
        tasks = search.place()
        if tasks is None:
            return False
        shape.ground.settle(shape.ask, tasks, room, lasts=lasts)
        self._charge(request, shape.ask)
        if request.kind is Kind.ENVIRONMENT:
            self.lending.note_environment(request.pool_id, tasks)
        self._start(request, Placement(request.id, tasks, shape.ask.card_milli))
        return True

    def _borrow(self, request: Request, shape: Shape) -> bool:
        loan = self.lending.lend(request, self.shapes.number_of(request))
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

    def _make_room(self, request: Request, shape: Shape, *, waited_out: bool = False) -> bool:
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

    def _claim(self, request: Request, shape: Shape, *, lasts: bool) -> bool:
        ground = shape.ground
        if ground.coming is None or shape.claim_failed.get(lasts) == ground.leavings:
            return False
        tasks = ground.claim(shape.ask, shape.coming_search(ground.coming), lasts=lasts)
        if tasks is None:
            shape.claim_failed[lasts] = ground.leavings
            return False
        self._promise(request, shape, tasks)
        self.claims.append((request, tasks))
        self.kept.setdefault(request.pool_id, []).append(Kept(request, None))
        self.waiting.append(request)
        return True

    def _reserve(self, request: Request, shape: Shape) -> bool:
        """Keep room for the first blocked request, if it can be said when it starts. True: it needs no more care."""
        pool_id, ground = request.pool_id, shape.ground
        if pool_id in self.reserved or self._tries.get(pool_id, 0) >= RESERVATION_TRIES:
            return False
        works, now_us = self.ending_in(ground), self._snapshot.now_us
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

    def ending_in(self, ground: Ground) -> list[Running]:
        """What holds room on the pool's nodes, with what starts in this cycle and has a time limit; without what has
        been asked to leave, whose room counts as there."""
        now_us = self._snapshot.now_us
        starting = [
            begun(request, tasks, now_us)
            for request, tasks in self._begun
            if any(task.node_id in ground.index_of for task in tasks)
        ]
        held = self._held.get(ground.pool.id, ())
        return [*(work for work in held if work.id not in self._asked and not work.is_leaving), *starting]

    def _keep_until(self, request: Request, shape: Shape, opening: Opening) -> None:
        shape.ground.reserve(opening.spare)
        charge = charge_of(request.kind, shape.ask)
        self.reserved[request.pool_id] = (request, charge, opening.at_us)
        self._promise(request, shape, opening.tasks)
        self.kept.setdefault(request.pool_id, []).insert(0, Kept(request, opening.at_us))
        nodes = tuple(sorted({task.node_id for task in opening.tasks}))
        self.reservations.append(Reservation(request.id, nodes, opening.at_us))
        self.waiting.append(request)

    def _promise(self, request: Request, shape: Shape, tasks: Tasks) -> None:
        """Nobody behind it may use the quota that the request needs for its promised room."""
        charge = charge_of(request.kind, shape.ask)
        self.ledger.take(request, charge)
        self.promised.append((request, charge))
        if request.kind is Kind.ENVIRONMENT:
            self.lending.note_environment(request.pool_id, tasks)

    def _charge(self, request: Request, ask: Ask) -> None:
        self.ledger.take(request, charge_of(request.kind, ask))
        self._standing.charge(request, ask, ask.card_milli)

    def _ask_to_leave(self, work: Running, request: Request | None) -> None:
        holding = [pool_id for pool_id, works in self._held.items() if work in works]
        is_lent = any(pool_id != work.pool_id for pool_id in holding)
        self._preemptor.take(work)
        self._asked.add(work.id)
        for pool_id in holding:
            self.grounds[pool_id].expect(work)
        cause = Cause.RECLAIMED if is_lent else Cause.PREEMPTED
        self.preemptions.append(Preemption(work.id, cause, request.id if request is not None else None))

    def _refill_reserves(self) -> None:
        for pool_id in self.lending.reserved_pools:
            missing = self.lending.reserve_gap(pool_id)
            if missing > 0:
                for work in self._preemptor.for_reserve(self.grounds[pool_id], missing):
                    self._ask_to_leave(work, None)

    def _likeness(self, request: Request, shape: Shape) -> tuple[object, ...]:
        """What decides whether its own pool has room for the request, its age aside."""
        scopes = self.ledger.key_of(request)
        return id(shape), request.group_id, scopes, request.kind, request.priority, self._lasts(request)
