"""Cards that a pool lends to another pool's queue: which, to whom, and when they are taken back.

Lent are cards that carry nothing but lent work, so a card never carries both sides, and only as many as leave free
what the rule keeps and the pool's warm reserve needs. Work that may be asked to leave is let in while a rule is open;
other work only if its time limit ends it before the window closes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.capacity import Ask, CardRoom, PoolRoom, layout_of
from scheduler.filters import is_empty
from scheduler.ground import Ground, Tasks
from scheduler.model import (
    WHOLE_CARD_MILLI,
    Kind,
    LendingRule,
    Pool,
    Request,
    Reserve,
    Running,
    Snapshot,
    TakeBack,
    TaskPlacement,
)
from scheduler.search import Search
from scheduler.sizing import slices_left
from scheduler.windows import SECOND_US, Span, next_opening_us, span_at


@dataclass(frozen=True, slots=True)
class Loan:
    rule_id: str
    tasks: Tasks
    card_milli: int  # as the lender's cards measure it


class Lending:
    """The rules and reserves of one snapshot. ``held``: by pool, the running work that holds something there."""

    def __init__(
        self, snapshot: Snapshot, grounds: Mapping[str, Ground], held: Mapping[str, Sequence[Running]]
    ) -> None:
        self._now_us = snapshot.now_us
        self._grounds = grounds
        self._held = held
        self.rules = _sound_rules(snapshot)
        self.lenders = frozenset(rule.lender for rule in self.rules)
        self.borrowers = frozenset(rule.borrower for rule in self.rules)
        self._reserves: dict[str, list[Reserve]] = defaultdict(list)
        for reserve in sorted(snapshot.reserves, key=lambda one: one.id):
            self._reserves[reserve.pool_id].append(reserve)
        self._spans: dict[str, Span | None] = {}
        self._stocks: dict[str, _Stock] = {}
        self._refused: set[tuple[str, int]] = set()  # rules and shapes that they had no room for: it only shrinks
        self._used: dict[str, int] = defaultdict(int)  # slices that environments of the pool took in this cycle

    def rules_for(self, borrower: str) -> list[LendingRule]:
        return [rule for rule in self.rules if rule.borrower == borrower]

    def span_of(self, rule: LendingRule) -> Span | None:
        if rule.id not in self._spans:
            self._spans[rule.id] = span_at(rule.windows, rule.time_zone, self._now_us)
        return self._spans[rule.id]

    def next_opening_us(self, rule: LendingRule) -> int | None:
        return next_opening_us(rule.windows, rule.time_zone, self._now_us)

    def may_use(self, rule: LendingRule, request: Request) -> bool:
        """True when the rule lets the request in now, room aside."""
        span = self.span_of(rule)
        if span is None or request.kind is not Kind.JOB:
            return False
        ends_in_time = self._ends_by(request, span.closes_us)
        if rule.take_back is TakeBack.WAIT:
            return ends_in_time
        if not request.preemptible:
            return ends_in_time and span.closes_us is not None
        return ends_in_time or span.closes_us is None or self._now_us < span.closes_us - rule.notice_s * SECOND_US

    def keeps_back(self, rule: LendingRule, request: Request, ask: Ask) -> int | None:
        """The slices that stay free for the lender, when lending to the request would touch them; else None."""
        stock = self._stock(rule.lender)
        kept = self._kept_slices(rule, request)
        if kept > 0 and stock.free_slices - stock.slices_of(ask) < kept:
            return kept
        if rule.keep_free_cards > 0 and stock.free_cards - ask.gpus * ask.tasks < rule.keep_free_cards:
            return rule.keep_free_cards * stock.slices
        return None

    def kept_back_from(self, rule: LendingRule, request: Request, shape: int) -> int | None:
        """`keeps_back` by the request alone."""
        ask, _ = self._stock(rule.lender).search_for(request, shape)
        return self.keeps_back(rule, request, ask)

    def lend(self, request: Request, shape: int) -> Loan | None:
        """Take room on another pool's cards for the request, by the first rule that has it. ``shape``: the number that
        requests of equal needs share."""
        for rule in self.rules:
            if rule.borrower != request.pool_id or request.resources.gpus < 1 or (rule.id, shape) in self._refused:
                continue
            stock = self._stock(rule.lender)
            ask, search = stock.search_for(request, shape)
            if not self.may_use(rule, request) or self.keeps_back(rule, request, ask) is not None:
                continue
            tasks = search.place()
            if tasks is None:
                self._refused.add((rule.id, shape))
                continue
            stock.free_slices -= stock.slices_of(ask)
            stock.free_cards -= ask.gpus * ask.tasks if ask.is_whole else 0
            if not ask.is_whole:
                stock.count_free_cards()
            self._grounds[rule.lender].settle(ask, tasks, stock.room, lasts=True)
            return Loan(rule.id, tasks, ask.card_milli)
        return None

    def closing(self) -> list[Running]:
        """Work on lent cards whose window closes, by id: it is to leave now. What ends in time may stay."""
        leaving = []
        for pool_id in sorted(self.lenders):
            for work in self._held.get(pool_id, ()):
                if is_lent(work, pool_id) and work.preemptible and not work.is_leaving:
                    rules = [rule for rule in self.rules if (rule.lender, rule.borrower) == (pool_id, work.pool_id)]
                    if rules and not any(self._may_stay(rule, work) for rule in rules):
                        leaving.append(work)
        return sorted(leaving, key=lambda work: work.id)

    def may_take_back(self, work: Running, lender: str) -> bool:
        """True when the lender may ask this work, which is on its cards, to leave whenever it needs them."""
        if not work.preemptible or work.kind is not Kind.JOB:
            return False
        rules = [rule for rule in self.rules if (rule.lender, rule.borrower) == (lender, work.pool_id)]
        return not rules or any(rule.take_back is TakeBack.CHECKPOINT for rule in rules)

    def note_environment(self, pool_id: str, tasks: Tasks) -> None:
        """An environment of the pool got this room in this cycle, or will."""
        if pool_id in self._reserves:
            self._used[pool_id] += _slices_in(tasks, self._grounds[pool_id])

    def reserve_gap(self, pool_id: str) -> int:
        """Slices that the pool's active reserves miss: neither in use by environments nor free or coming free."""
        wanted = self._reserved(pool_id, until_us=None)
        if wanted <= 0:
            return 0
        ground = self._grounds[pool_id]
        return wanted - free_slices(ground.coming or ground.now)

    @property
    def reserved_pools(self) -> list[str]:
        return sorted(pool_id for pool_id in self._reserves if pool_id in self._grounds)

    def _reserved(self, pool_id: str, until_us: int | None) -> int:
        """Slices that must be free beside those in use, for reserves active now or, up to ``until_us``, later."""
        most = 0
        for reserve in self._reserves.get(pool_id, ()):
            span = span_at(reserve.windows, reserve.time_zone, self._now_us)
            if span is None and until_us is not None:
                opens = next_opening_us(reserve.windows, reserve.time_zone, self._now_us)
                if opens is not None and opens < until_us:
                    span = Span(opens, None)
            if span is not None:
                most = max(most, reserve.slices)
        return most - self._in_use(pool_id) if most else 0

    def _in_use(self, pool_id: str) -> int:
        used = self._used.get(pool_id, 0)
        for work in self._held.get(pool_id, ()):
            if work.kind is Kind.ENVIRONMENT and work.pool_id == pool_id and not work.is_leaving:
                used += _slices_in(work.tasks, self._grounds[pool_id])
        return used

    def _kept_slices(self, rule: LendingRule, request: Request) -> int:
        """What lending must leave free. Work that cannot be asked to leave must not meet a reserve later either."""
        can_ask = rule.take_back is TakeBack.CHECKPOINT and request.preemptible
        limit_s = request.time_limit_s
        until_us = None if can_ask or limit_s is None else self._now_us + limit_s * SECOND_US
        return max(rule.keep_free_slices, self._reserved(rule.lender, until_us))

    def _ends_by(self, request: Request, closes_us: int | None) -> bool:
        limit_s = request.time_limit_s
        return limit_s is not None and (closes_us is None or self._now_us + limit_s * SECOND_US <= closes_us)

    def _may_stay(self, rule: LendingRule, work: Running) -> bool:
        span = self.span_of(rule)
        if span is None:
            return False
        if span.closes_us is None or self._now_us < span.closes_us - rule.notice_s * SECOND_US:
            return True
        return work.ends_at_us is not None and work.ends_at_us <= span.closes_us

    def _stock(self, lender: str) -> "_Stock":
        if lender not in self._stocks:
            self._stocks[lender] = _Stock(self._grounds[lender], self._held.get(lender, ()))
        return self._stocks[lender]


def open_lenders(snapshot: Snapshot) -> frozenset[str]:
    """The pools that lend now."""
    return frozenset(
        rule.lender
        for rule in _sound_rules(snapshot)
        if span_at(rule.windows, rule.time_zone, snapshot.now_us) is not None
    )


def _sound_rules(snapshot: Snapshot) -> list[LendingRule]:
    if not snapshot.lending:
        return []
    pools = {pool.id for pool in snapshot.pools}
    rules = sorted(snapshot.lending, key=lambda rule: rule.id)
    return [rule for rule in rules if rule.lender in pools and rule.lender != rule.borrower]


class _Stock:
    """What a pool could lend: its room without the cards that carry work of its own."""

    def __init__(self, ground: Ground, held: Iterable[Running]) -> None:
        self._ground = ground
        self.slices = max(1, ground.pool.slices_per_gpu)  # an uncut card is one
        self.free_slices = free_slices(ground.now)
        self.room: PoolRoom = ground.twin(ground.lasting or ground.now)
        self._searches: dict[int, tuple[Ask, Search]] = {}
        lent: dict[str, tuple[int, int]] = {}
        for work in held:
            if is_lent(work, ground.pool.id):
                for task in work.tasks:
                    for share in task.shares:
                        mib, milli = lent.get(share.device_id, (0, 0))
                        lent[share.device_id] = mib + share.memory_mib, milli + share.compute_milli
        for node in self.room.nodes:
            for card in node.cards:
                mib, milli = lent.get(card.id, (0, 0))
                if card.free_milli + milli != WHOLE_CARD_MILLI or card.free_memory_mib + mib != card.memory_mib:
                    card.free_memory_mib = card.free_milli = 0
            node.free_milli = sum(card.free_milli for card in node.cards)
        self.free_cards = 0
        self.count_free_cards()

    def count_free_cards(self) -> None:
        self.free_cards = sum(is_empty(card) for node in self.room.nodes if node.is_open for card in node.cards)

    def search_for(self, request: Request, shape: int) -> tuple[Ask, Search]:
        found = self._searches.get(shape)
        if found is None:
            ask = self.room.ask(request.resources, request.tasks, layout_of(request))
            found = self._searches[shape] = ask, Search(self.room, ask)
        return found

    def slices_of(self, ask: Ask) -> int:
        """What lending to this request takes off the lender's free slices, at most."""
        if ask.is_whole:
            return self.slices * ask.gpus * ask.tasks
        most = max((given.compute_milli for given in ask.grants if given is not None), default=0)
        return min(self.slices, -(-most * self.slices // WHOLE_CARD_MILLI)) * ask.gpus * ask.tasks


def is_lent(work: Running, pool_id: str) -> bool:
    """True when what the work holds of this pool's nodes is lent to it."""
    return work.pool_id != pool_id


def free_slices(room: PoolRoom) -> int:
    """Slices that the open nodes could still give; an uncut card counts as one while it is empty."""
    return sum(slices_on(room.pool, card) for node in room.nodes if node.is_open for card in node.cards)


def slices_on(pool: Pool, card: CardRoom) -> int:
    if pool.slices_per_gpu == 0:
        return int(is_empty(card))
    return slices_left(pool, card.memory_mib, card.free_memory_mib, card.free_milli)


def _slices_in(tasks: Iterable[TaskPlacement], ground: Ground) -> int:
    """How many slices of the pool's cut these tasks hold on its nodes."""
    count, total = ground.pool.slices_per_gpu, 0
    for task in tasks:
        if task.node_id in ground.index_of:
            for share in task.shares:
                whole = share.whole or count == 0
                total += max(1, count) if whole else ((share.compute_milli + 1) * count - 1) // WHOLE_CARD_MILLI
    return total


def slices_given_back(work: Running, ground: Ground) -> int:
    """Slices that come free on the pool's open nodes when this work leaves."""
    here = [
        task
        for task in work.tasks
        if (index := ground.index_of.get(task.node_id)) is not None and ground.now.nodes[index].is_open
    ]
    return _slices_in(here, ground)
