"""Why each request that stays waits: every reason that applies, with its numbers, as the cycle leaves things.

Requests of equal needs share one answer about the pool, requests of one user and equal needs one about quotas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.capacity import Ask, PoolRoom, layout_of
from scheduler.feasibility import Refusal, refuse_kind, refuse_malformed, refuse_size, scope_name
from scheduler.filters import fitting_cards, room_in, room_on, tasks_on
from scheduler.ground import Ground
from scheduler.lending import Lending
from scheduler.model import Kind, LendingRule, PendingReason, Reason, Request
from scheduler.quotas import Ledger, Shortfall, charge_of
from scheduler.shapes import Shapes
from scheduler.shortage import Leftover, find_shortages
from scheduler.windows import Span
from scheduler.wording import AMOUNT, counted, instant

NODES_NAMED = 3  # in a message; the numbers have the full count

_HELD = PendingReason(Reason.HELD, {}, "held; it waits until it is released")


@dataclass(frozen=True, slots=True)
class Kept:
    """Room of a pool is kept for this request: until it can start by the time limits of what runs, or, with None,
    until work that was asked to leave has gone."""

    request: Request
    starts_at_us: int | None


class Explainer:
    """Answers for one plan. Build it after the last placement: it remembers what it has worked out."""

    def __init__(
        self,
        grounds: Mapping[str, Ground],
        ledger: Ledger,
        lending: Lending,
        kept: Mapping[str, Sequence[Kept]],
        shapes: Shapes,
    ) -> None:
        self._grounds = grounds
        self._leftovers: dict[str, Leftover] = {}
        self._ledger = ledger
        self._lending = lending
        self._kept = kept
        self._shapes = shapes
        self._pool_reasons: dict[tuple[int, Kind], tuple[PendingReason, ...]] = {}
        self._own: dict[tuple[int, int, str, Kind], tuple[tuple[PendingReason, ...], bool]] = {}

    def reasons(self, request: Request) -> tuple[PendingReason, ...]:
        """Held, then quotas (group before user), then the pool, then cards of other pools."""
        key = (self._shapes.number_of(request), self._ledger.key_of(request), request.group_id, request.kind)
        found = self._own.get(key)
        if found is None:
            quota, pool = self._quota(request), self._pool(request)
            found = self._own[key] = (*quota, *pool), bool(quota)
        own, is_over_quota = found
        if request.held:
            return (_HELD, *own)
        lent = () if is_over_quota else self._lent(request)
        if own:
            return (*own, *lent) if lent else own
        return self._kept_for_other(request), *lent

    def _left_of(self, pool_id: str) -> Leftover | None:
        """What placements leave of the pool, room that is kept for others included."""
        if pool_id not in self._leftovers and pool_id in self._grounds:
            ground = self._grounds[pool_id]
            self._leftovers[pool_id] = Leftover(ground.bare or ground.now)
        return self._leftovers.get(pool_id)

    def _quota(self, request: Request) -> tuple[PendingReason, ...]:
        shape = self._shapes.of(request)
        if shape is None:
            return ()
        charge = charge_of(request.kind, shape.ask)
        return tuple(_over_quota(over) for over in self._ledger.shortfalls(request, charge))

    def _pool(self, request: Request) -> tuple[PendingReason, ...]:
        key = (self._shapes.number_of(request), request.kind)
        found = self._pool_reasons.get(key)
        if found is None:
            found = self._pool_reasons[key] = explain_pool(request, self._left_of(request.pool_id))
        return found

    def _kept_for_other(self, request: Request) -> PendingReason:
        """It would fit, and was let wait: for a reservation or a claim. Names stay within the own group."""
        for kept in self._kept.get(request.pool_id, ()):
            numbers: dict[str, int | str] = {}
            who = "a request ahead"
            if kept.request.group_id == request.group_id:
                numbers["workload"] = who = kept.request.id
            if kept.starts_at_us is None:
                message = f"room is kept for {who}, which starts when work that was asked to leave has gone"
            else:
                numbers["starts_at_us"] = kept.starts_at_us
                message = f"room is kept for {who}, which can start by {instant(kept.starts_at_us)}"
            return PendingReason(Reason.RESERVED_FOR_OTHER, numbers, message)
        return PendingReason(Reason.RESERVED_FOR_OTHER, {}, "room is kept for a request ahead")

    def _lent(self, request: Request) -> tuple[PendingReason, ...]:
        """Why the first pool that lends to this queue does not lend to this request."""
        if request.pool_id not in self._lending.borrowers or request.kind is not Kind.JOB or request.resources.gpus < 1:
            return ()
        for rule in self._lending.rules_for(request.pool_id):
            span = self._lending.span_of(rule)
            if span is None:
                opens_us = self._lending.next_opening_us(rule)
                numbers: dict[str, int | str] = {"lender": rule.lender}
                message = f"pool {rule.lender} lends its cards at other times"
                if opens_us is not None:
                    numbers["opens_at_us"] = opens_us
                    message = f"pool {rule.lender} lends its cards again from {instant(opens_us)}"
                return (PendingReason(Reason.WINDOW_CLOSED, numbers, message),)
            if not self._lending.may_use(rule, request):
                return (_too_long(rule, span, request),)
            kept = self._lending.kept_back_from(rule, request, self._shapes.number_of(request))
            if kept is not None:
                numbers = {"lender": rule.lender, "kept_slices": kept}
                message = f"pool {rule.lender} keeps {AMOUNT['gpu_slices'](kept)} free for its own work"
                return (PendingReason(Reason.RESERVED_FOR_OTHER, numbers, message),)
        return ()


def _too_long(rule: LendingRule, span: Span, request: Request) -> PendingReason:
    numbers: dict[str, int | str] = {"lender": rule.lender}
    if request.time_limit_s is None:
        what = "work without a time limit"
    else:
        numbers["time_limit_s"] = request.time_limit_s
        what = "work that cannot be asked to leave" if span.closes_us is None else "work of this time limit"
    until = ""
    if span.closes_us is not None:
        numbers["closes_at_us"] = span.closes_us
        until = f" that ends after {instant(span.closes_us)}" if request.time_limit_s is not None else ""
    message = f"pool {rule.lender} lends no cards to {what}{until}"
    return PendingReason(Reason.WINDOW_CLOSED, numbers, message)


def explain_pool(request: Request, left: Leftover | None) -> tuple[PendingReason, ...]:
    """What keeps the pool from holding the request now; () when it would.

    Hardware that the pool does not have even when idle is `no_such_device`. What it has, but on nodes or
    cards that take no work now, is `node_unavailable`.
    """
    if malformed := refuse_malformed(request):
        return tuple(_no_such(refusal) for refusal in malformed)
    if left is None:
        return (_unavailable(0, f"pool {request.pool_id} does not exist any more"),)
    room = left.room
    if refused := refuse_kind(request.kind, room.pool):
        return (_unavailable(0, refused[0].message),)
    ask = room.ask(request.resources, request.tasks, layout_of(request))
    if too_large := refuse_size(request.resources, ask, room):
        return tuple(_no_such(refusal) for refusal in too_large)
    if room_in(ask, room.installed) < ask.tasks:
        missing = "knows the memory of all its cards" if room.nodes else "has a node"
        return (_unavailable(0, f"waits until pool {room.pool.id} {missing}"),)
    shut = _room_out_of_service(ask, room)
    if room_in(ask, room.in_service) < ask.tasks:
        return (_would_fit(shut, room),)
    places = left.places(ask)
    held = sum(tasks_on(ask, node, fitting) for node, fitting in places)
    if held >= ask.tasks:
        return ()
    shortages = find_shortages(request.resources, ask, left, places)
    return (*shortages, _would_fit(shut, room)) if held + sum(shut.values()) >= ask.tasks else shortages


def _room_out_of_service(ask: Ask, room: PoolRoom) -> dict[str, int]:
    """How many more tasks each node would hold now if it, or its broken cards, were in service; none omitted."""
    found = {}
    for node in room.nodes:
        if node.broken or not node.is_open:
            cards = fitting_cards(ask, node, node.all_cards) if ask.gpus else []
            more = tasks_on(ask, node, cards) - (room_on(ask, node) if node.is_open else 0)
            if more > 0:
                found[node.id] = more
    return found


def _would_fit(shut: Mapping[str, int], room: PoolRoom) -> PendingReason:
    if not shut:
        return _unavailable(0, f"too many nodes of pool {room.pool.id} take no work now")
    names = sorted(shut)
    more = f" and {len(names) - NODES_NAMED} more" if len(names) > NODES_NAMED else ""
    listed = ", ".join(names[:NODES_NAMED]) + more
    return _unavailable(len(names), f"{counted(len(names), 'node')} with room out of service or in part: {listed}")


def _unavailable(nodes: int, message: str) -> PendingReason:
    return PendingReason(Reason.NODE_UNAVAILABLE, {"nodes": nodes}, message)


def _no_such(refusal: Refusal) -> PendingReason:
    numbers: dict[str, int | str] = {"field": refusal.field, "needed": refusal.asked}
    if refusal.would_pass is not None:
        numbers["largest"] = refusal.would_pass
    return PendingReason(Reason.NO_SUCH_DEVICE, numbers, refusal.message)


def _over_quota(over: Shortfall) -> PendingReason:
    scope = over.scope
    numbers: dict[str, int | str] = {
        "scope": scope.id,
        "quantity": over.quantity,
        "limit": over.limit,
        "used": over.used,
        "asked": over.asked,
    }
    amount = AMOUNT[over.quantity]
    message = f"{scope_name(over)} uses {amount(over.used)} of {amount(over.limit)}, this needs {amount(over.asked)}"
    return PendingReason(Reason.QUOTA_GROUP if scope.user_id is None else Reason.QUOTA_USER, numbers, message)
