"""The order of service: priority, then groups under their guarantee, then the weighted share of what each group has
used of late, then age, then id. Placements change who is next, so the order is made while it is walked.

A request that has been promised a start comes before all others of its priority until it has started: shares change by
the minute, and a reservation that went with them from one request to the next would be none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from scheduler.capacity import Ask
from scheduler.fairness import HALF_LIFE_S, SECOND_US, dominant_milli
from scheduler.ground import Ground
from scheduler.model import WHOLE_CARD_MILLI, Request, Running, Scope, Snapshot

EXPECTED_RUN_S: Final = 12 * 3600  # of work without a time limit
_SHARE_SCALE: Final = 1000

Owner: TypeAlias = tuple[str, str]
"""A group in a pool: the pool's id, the group's id."""
Place: TypeAlias = tuple[bool, bool, int, int, str]
"""Among requests of one priority, lowest first."""


class Standing:
    """What each group has in each pool: its guarantee, its use, its share. Kept up to date as requests are placed.

    A group's share counts, beside its decayed usage, what its running work and this cycle's placements will yet use
    by their time limits, so that no group takes all that comes free at once.
    """

    def __init__(self, snapshot: Snapshot, grounds: Mapping[str, Ground]) -> None:
        self._now_us = snapshot.now_us
        self._grounds = grounds
        self._totals: dict[str, tuple[int, int, int]] = {}
        self._scopes: dict[Owner, Scope] = {}
        for scope in sorted(snapshot.scopes, key=lambda one: one.id):
            if scope.user_id is None and scope.pool_id is not None:
                self._scopes.setdefault((scope.pool_id, scope.group_id), scope)
        self._used = {owner: scope.gpu_milli.used for owner, scope in self._scopes.items()}
        self._leaving: dict[Owner, int] = {}
        self._usage = {owner: scope.usage for owner, scope in self._scopes.items()}
        self.has_guarantees = any(scope.guaranteed_milli is not None for scope in self._scopes.values())
        for work in snapshot.running:
            owner = (work.pool_id, work.group_id)
            self._usage[owner] = self._usage.get(owner, 0) + self._yet_to_use(work)
            if work.is_leaving:
                self._leaving[owner] = self._leaving.get(owner, 0) + work.card_milli

    def charge(self, request: Request, ask: Ask, card_milli: int) -> None:
        """The request has been given its room."""
        owner = (request.pool_id, request.group_id)
        self._used[owner] = self._used.get(owner, 0) + card_milli
        run_s = request.time_limit_s if request.time_limit_s is not None else EXPECTED_RUN_S
        milli = self._dominant(request.pool_id, card_milli, ask.cpu_milli * ask.tasks, ask.memory_mib * ask.tasks)
        self._usage[owner] = self._usage.get(owner, 0) + milli * min(run_s, HALF_LIFE_S)

    def note_leaving(self, work: Running) -> None:
        """The work has been asked to leave in this cycle."""
        owner = (work.pool_id, work.group_id)
        self._leaving[owner] = self._leaving.get(owner, 0) + work.card_milli

    def share(self, owner: Owner) -> int:
        """The lower, the sooner is the group's turn."""
        scope = self._scopes.get(owner)
        weight = max(1, scope.weight) if scope is not None else 1
        return self._usage.get(owner, 0) * _SHARE_SCALE // weight

    def guarantees(self, request: Request, card_milli: int) -> bool:
        """True when the request would leave its group within its guarantee."""
        owner = (request.pool_id, request.group_id)
        guaranteed = self._guaranteed(owner)
        return guaranteed is not None and self._used.get(owner, 0) + card_milli <= guaranteed

    def kept_by(self, work: Running, *, leaving_milli: int = 0) -> int:
        """What the work's group holds and keeps in its pool, when so much more is leaving."""
        owner = (work.pool_id, work.group_id)
        return self._used.get(owner, 0) - self._leaving.get(owner, 0) - leaving_milli

    def guaranteed_to(self, work: Running) -> int | None:
        return self._guaranteed((work.pool_id, work.group_id))

    def stands_behind(self, work: Running, request: Request) -> bool:
        """True when the work, were it waiting, would come after the request, by age and by its group's share too."""
        if (-work.priority, work.queued_at_us, work.id) <= (-request.priority, request.queued_at_us, request.id):
            return False
        if work.group_id == request.group_id or work.priority < request.priority:
            return True
        owner = (work.pool_id, work.group_id)
        scope = self._scopes.get(owner)
        own = self._yet_to_use(work) * _SHARE_SCALE // (max(1, scope.weight) if scope is not None else 1)
        return self.share((request.pool_id, request.group_id)) <= self.share(owner) - own

    def _guaranteed(self, owner: Owner) -> int | None:
        scope = self._scopes.get(owner)
        return None if scope is None else scope.guaranteed_milli

    def _yet_to_use(self, work: Running) -> int:
        run_s = EXPECTED_RUN_S
        if work.ends_at_us is not None:
            run_s = max(0, min(HALF_LIFE_S, (work.ends_at_us - self._now_us) // SECOND_US))
        count = len(work.tasks)
        needs = work.resources
        return run_s * self._dominant(work.pool_id, work.card_milli, needs.cpu_milli * count, needs.memory_mib * count)

    def _dominant(self, pool_id: str, card_milli: int, cpu_milli: int, memory_mib: int) -> int:
        totals = self._totals.get(pool_id)
        if totals is None:
            rows = self._grounds[pool_id].rows if pool_id in self._grounds else ()
            totals = self._totals[pool_id] = (
                WHOLE_CARD_MILLI * sum(len(node.devices) for node in rows),
                sum(node.cpu_milli for node in rows),
                sum(node.memory_mib for node in rows),
            )
        return dominant_milli(card_milli, cpu_milli, memory_mib, totals)


def age(request: Request) -> tuple[bool, int, int, str]:
    promised_us = request.promised_us
    return promised_us is None, promised_us or 0, request.queued_at_us, request.id


def in_order(pending: Iterable[Request], standing: Standing, milli_of: Callable[[Request], int]) -> Iterator[Request]:
    """All requests in the order of service. Who comes next is decided when it is asked for; ``milli_of``: the card
    equivalents that a request asks for."""

    def place(request: Request) -> Place:
        owner = (request.pool_id, request.group_id)
        if request.promised_us is not None:
            return False, False, request.promised_us, request.queued_at_us, request.id
        is_guaranteed = standing.has_guarantees and standing.guarantees(request, milli_of(request))
        return True, not is_guaranteed, standing.share(owner), request.queued_at_us, request.id

    levels: dict[int, dict[Owner, list[Request]]] = {}
    for request in pending:
        owner = (request.pool_id, request.group_id)
        levels.setdefault(request.priority, {}).setdefault(owner, []).append(request)
    for priority in sorted(levels, reverse=True):
        queues = levels[priority]
        for queue in queues.values():
            queue.sort(key=age, reverse=True)
        heap = [(place(queue[-1]), owner) for owner, queue in queues.items()]
        heapify(heap)
        while heap:
            _, owner = heappop(heap)
            queue = queues[owner]
            yield queue.pop()
            if queue:
                heappush(heap, (place(queue[-1]), owner))
