"""Which running work is asked to leave so that a request can start.

Only jobs that are marked preemptible. A request R takes the room of work V when
(a) V is on cards that R's pool lent and may take back,
(b) R's group stays within its guarantee, V's group is over its own, and V's priority is not higher,
(c) V's priority is lower by the pool's gap, or
(d) R has been first in line too long, V has no time limit and stands behind R.
Under (b) a group is never brought below its guarantee, save by a job that alone exceeds it. Under (c) and (d) a group
within its guarantee yields only to such another. In all but (a), V must have run for the pool's minimum time. Each
rule lets R pass only what stands behind it in one fixed order, so no two requests ever take turns.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from scheduler.capacity import Ask, NodeRoom
from scheduler.filters import room_on
from scheduler.ground import Ground, clamp, copied, release, seize
from scheduler.lending import Lending, is_lent, slices_given_back
from scheduler.model import Kind, Request, Running, Snapshot
from scheduler.order import Standing
from scheduler.windows import SECOND_US

MOST_A_CYCLE: Final = 64  # victims; in a cluster of thousands each search takes milliseconds; the next cycle goes on

Rank: TypeAlias = tuple[int, int, int, int, str]
"""Who leaves first: lent or borrowed, lowest priority, least work lost (time by cards), newest; ties by id."""
Victims: TypeAlias = list[Running]
_Class: TypeAlias = tuple[str, str, int]
"""Pool, group and priority of work."""


@dataclass(slots=True)
class _Wish:
    """A request that looks for room, and what is the same for all victims."""

    request: Request
    ask: Ask
    ground: Ground
    is_guaranteed: bool
    waited_out: bool
    leaving_milli: dict[tuple[str, str], int] = field(default_factory=dict)  # by pool and group, of victims so far


class Preemptor:
    """``held``: by pool, the running work that holds something there."""

    def __init__(
        self, snapshot: Snapshot, held: Mapping[str, Sequence[Running]], standing: Standing, lending: Lending
    ) -> None:
        self._now_us = snapshot.now_us
        self._standing = standing
        self._lending = lending
        self._taken: set[str] = set()
        self._count = 0  # victims found for requests
        self._hopeless: set[tuple[int, int, bool, str]] = set()  # needs, priority, if it lasts, group if that matters
        min_run_us = {pool.id: pool.min_run_s * SECOND_US for pool in snapshot.pools}
        self._movable = {
            pool_id: [work for work in works if self._is_movable(work, pool_id, min_run_us[pool_id])]
            for pool_id, works in held.items()
        }
        self._ranked: dict[str, list[tuple[_Class, Running]]] = {}
        self._samples: dict[str, dict[_Class, Running]] = {}
        self._ranks: dict[str, Rank] = {}
        self._lenders = {
            pool_id for pool_id, works in self._movable.items() if any(is_lent(work, pool_id) for work in works)
        }

    def take(self, work: Running) -> None:
        """The work is asked to leave, for whatever reason."""
        self._taken.add(work.id)
        self._standing.note_leaving(work)

    def find(self, request: Request, ask: Ask, ground: Ground, *, lasts: bool, waited_out: bool) -> Victims | None:
        """The least work whose leaving makes room for the request, beside what is free or coming; None: none does."""
        works = self._movable.get(ground.pool.id)
        if not works or self._count >= MOST_A_CYCLE:
            return None
        is_guaranteed = self._standing.guarantees(request, ask.card_milli)
        if not (ground.pool.id in self._lenders or is_guaranteed or waited_out or ground.pool.priority_gap is not None):
            return None
        key = (id(ask), request.priority, lasts, request.group_id if is_guaranteed else "")
        if key in self._hopeless and not waited_out:
            return None
        wish = _Wish(request, ask, ground, is_guaranteed, waited_out)
        movable = self._candidates(wish)
        found = None
        if movable:
            tries = _Tries(wish, lasts=lasts)
            found = self._on_one_node(wish, tries, movable) if ask.tasks == 1 else self._anywhere(wish, tries, movable)
        if found is not None:
            self._count += len(found)
        else:
            self._hopeless.add(key)
        return found

    def for_reserve(self, ground: Ground, missing: int) -> Victims:
        """The least lent work that gives back so many slices, or all there is."""
        pool_id = ground.pool.id
        works = [work for work in self._movable.get(pool_id, ()) if self._can_take_back(work, pool_id)]
        chosen: Victims = []
        gained = 0
        for work in sorted(works, key=self.rank):
            if gained >= missing:
                break
            chosen.append(work)
            gained += slices_given_back(work, ground)
        for work in reversed(list(chosen)):
            back = slices_given_back(work, ground)
            if gained - back >= missing or back == 0:
                chosen.remove(work)
                gained -= back
        return chosen

    def patient_victims(self, request: Request, ask: Ask, ground: Ground) -> Victims:
        """Work without a time limit that a request which waited too long may ask to leave."""
        is_guaranteed = self._standing.guarantees(request, ask.card_milli)
        wish = _Wish(request, ask, ground, is_guaranteed, waited_out=True)
        return self._candidates(wish)

    def rank(self, work: Running) -> Rank:
        """As things stand when the work is first looked at in this cycle."""
        if work.id not in self._ranks:
            self._ranks[work.id] = self._rank(work)
        return self._ranks[work.id]

    def _rank(self, work: Running) -> Rank:
        since = max(work.started_at_us or self._now_us, work.saved_at_us or 0)
        over = self._standing.kept_by(work) > (self._standing.guaranteed_to(work) or 0)
        lost = max(0, self._now_us - since) * max(1, work.card_milli)
        return int(not over), work.priority, lost, -(work.started_at_us or self._now_us), work.id

    def _can_take_back(self, work: Running, pool_id: str) -> bool:
        return is_lent(work, pool_id) and work.id not in self._taken and self._lending.may_take_back(work, pool_id)

    def _is_movable(self, work: Running, pool_id: str, min_run_us: int) -> bool:
        """True for a preemptible job that is on lent cards or has run long enough."""
        if not work.preemptible or work.kind is not Kind.JOB or work.is_leaving:
            return False
        if is_lent(work, pool_id):
            return True
        return work.started_at_us is not None and self._now_us - work.started_at_us >= min_run_us

    def _candidates(self, wish: _Wish) -> Victims:
        """All that may leave for the request, each taken alone, by rank. Groups and priorities of which none may are
        passed over as a whole."""
        pool_id = wish.ground.pool.id
        if pool_id not in self._ranked:
            works = sorted(self._movable.get(pool_id, ()), key=self.rank)
            self._ranked[pool_id] = [((work.pool_id, work.group_id, work.priority), work) for work in works]
            self._samples[pool_id] = dict(self._ranked[pool_id])
        samples = self._samples[pool_id]
        open_to_it = {one for one, sample in samples.items() if self._may_any_leave(wish, sample)}
        if not open_to_it:
            return []
        return [work for one, work in self._ranked[pool_id] if one in open_to_it and self._may_leave(wish, work)]

    def _may_any_leave(self, wish: _Wish, sample: Running) -> bool:
        """False when no work of the sample's group and priority may leave."""
        request, pool = wish.request, wish.ground.pool
        if is_lent(sample, pool.id):
            return request.pool_id == pool.id
        if sample.priority > request.priority:
            return False
        may_pass = pool.priority_gap is not None and request.priority >= sample.priority + max(1, pool.priority_gap)
        is_over = self._standing.kept_by(sample) > (self._standing.guaranteed_to(sample) or 0)
        return may_pass or wish.waited_out or (wish.is_guaranteed and is_over and sample.group_id != request.group_id)

    def _may_leave(self, wish: _Wish, work: Running) -> bool:
        """Rules (a) to (d), given the victims so far."""
        if work.id in self._taken:
            return False
        pool = wish.ground.pool
        if is_lent(work, pool.id):
            return wish.request.pool_id == pool.id and self._lending.may_take_back(work, pool.id)
        request = wish.request
        if work.priority > request.priority:
            return False
        kept = self._standing.kept_by(work, leaving_milli=wish.leaving_milli.get((work.pool_id, work.group_id), 0))
        guaranteed = self._standing.guaranteed_to(work)
        least = guaranteed or 0
        is_borrowed = kept > least and (kept - work.card_milli >= least or work.card_milli > least)
        if wish.is_guaranteed and work.group_id != request.group_id and is_borrowed:
            return True
        if guaranteed is not None and kept <= guaranteed and not wish.is_guaranteed:
            return False
        if pool.priority_gap is not None and request.priority >= work.priority + max(1, pool.priority_gap):
            return True
        return wish.waited_out and work.ends_at_us is None and self._standing.stands_behind(work, request)

    def _on_one_node(self, wish: _Wish, tries: "_Tries", movable: Sequence[Running]) -> Victims | None:
        by_node: dict[int, Victims] = {}
        for work in movable:
            for index in {wish.ground.index_of.get(task.node_id, -1) for task in work.tasks} - {-1}:
                by_node.setdefault(index, []).append(work)
        best: tuple[tuple[int, int, int, int, str], Victims] | None = None
        for index, works in by_node.items():  # by the rank of the first that would leave
            if best is not None and best[0][:4] < self._least_cost(works[0]):
                break
            node = wish.ground.now.nodes[index]
            if not node.is_open:
                continue
            victims = self._least(wish, works, tries, (index,))
            if victims:
                ranks = [self.rank(work) for work in victims]
                cost = (
                    max(rank[0] for rank in ranks),
                    max(rank[1] for rank in ranks),
                    len(victims),
                    sum(rank[2] for rank in ranks),
                    node.id,
                )
                if best is None or cost < best[0]:
                    best = cost, victims
        return best[1] if best is not None else None

    def _least_cost(self, first: Running) -> tuple[int, int, int, int]:
        """No victims of a node cost less than the first of them alone."""
        is_own, priority, lost, *_ = self.rank(first)
        return is_own, priority, 1, lost

    def _anywhere(self, wish: _Wish, tries: "_Tries", movable: Sequence[Running]) -> Victims | None:
        is_open = [index for index, node in enumerate(wish.ground.now.nodes) if node.is_open]
        return self._least(wish, movable, tries, is_open)

    def _least(self, wish: _Wish, works: Sequence[Running], tries: "_Tries", nodes: Sequence[int]) -> Victims | None:
        """Add victims in order until the request fits on these nodes, then let go all that turn out unnecessary."""
        tries.begin(nodes)
        chosen: Victims = []
        wish.leaving_milli.clear()
        for work in works:
            if self._may_leave(wish, work):
                chosen.append(work)
                owner = (work.pool_id, work.group_id)
                wish.leaving_milli[owner] = wish.leaving_milli.get(owner, 0) + work.card_milli
                tries.free(work)
                if tries.fits():
                    break
        else:
            return None
        for work in reversed(chosen[:-1]):
            tries.hold(work)
            if tries.fits():
                chosen.remove(work)
            else:
                tries.free(work)
        return chosen


class _Tries:
    """The nodes of a pool as they would be without some of the work on them."""

    def __init__(self, wish: _Wish, *, lasts: bool) -> None:
        self._ground, self._ask = wish.ground, wish.ask
        self._lasts = lasts
        self._nodes: dict[int, NodeRoom] = {}
        self._held: dict[int, int] = {}
        self._total = 0
        self._stale: set[int] = set()

    def begin(self, indexes: Iterable[int]) -> None:
        self._nodes = {index: self._fresh(index) for index in indexes}
        self._held = dict.fromkeys(self._nodes, 0)
        self._total = 0
        self._stale = set(self._nodes)

    def fits(self) -> bool:
        for index in self._stale:
            held = room_on(self._ask, self._nodes[index])
            self._total += held - self._held[index]
            self._held[index] = held
        self._stale.clear()
        return self._total >= self._ask.tasks

    def free(self, work: Running) -> None:
        for task in work.tasks:
            index = self._ground.index_of.get(task.node_id, -1)
            if index in self._nodes:
                release(self._nodes[index], work, task)
                self._stale.add(index)

    def hold(self, work: Running) -> None:
        for task in work.tasks:
            index = self._ground.index_of.get(task.node_id, -1)
            if index in self._nodes:
                seize(self._nodes[index], work, task)
                self._stale.add(index)

    def _fresh(self, index: int) -> NodeRoom:
        node = copied((self._ground.coming or self._ground.now).nodes[index])
        if self._lasts and self._ground.spare is not None:
            clamp(node, self._ground.spare.nodes[index])
        return node
