"""The decision: which waiting requests start now and where, what has to leave for them, and why the others wait."""

from collections.abc import Iterable

from scheduler.capacity import Ask
from scheduler.cycle import Cycle
from scheduler.estimate import LOOKED_AT, Range, estimate
from scheduler.explain import Explainer
from scheduler.model import Plan, Request, Snapshot, Waiting
from scheduler.reservations import begun, endings


def decide(snapshot: Snapshot) -> Plan:
    """Place what can start, say of all else why it waits. Same snapshot in, same plan out.

    Requests are served by priority, then groups under their guarantee, then the weighted share of what each group has
    used, then age, then id. Each tries what is free in its pool, then cards lent to its queue, then room that is about
    to come free, then work that must give way to it. One that does not fit holds up those behind it only where they
    would delay its reservation. A request that makes no sense, or names a pool that is not there, waits and disturbs
    no other. Pools that lend are served before those that borrow.
    """
    cycle = Cycle(snapshot)
    cycle.run()
    ordered = sorted(cycle.waiting, key=lambda one: (one.pool_id, one.held))  # stable: the order of service
    ranges = _estimates(cycle, snapshot.now_us, ordered) if snapshot.with_estimates else {}
    return Plan(
        snapshot.version,
        tuple(cycle.placements),
        tuple(_explain(cycle, ordered, ranges)),
        tuple(cycle.preemptions),
        tuple(cycle.reservations),
    )


def _explain(cycle: Cycle, ordered: Iterable[Request], ranges: dict[str, Range]) -> list[Waiting]:
    """Reasons as things stand after all placements, pool by pool, positions from 1 in each.

    Held requests are not in line: they come after all others of their pool.
    """
    for request, charge in cycle.promised:
        cycle.ledger.give(request, charge)
    explainer = Explainer(cycle.grounds, cycle.ledger, cycle.lending, cycle.kept, cycle.shapes)
    last: dict[str, int] = {}
    waiting = []
    for request in ordered:
        last[request.pool_id] = last.get(request.pool_id, 0) + 1
        start = ranges.get(request.id, (None, None))
        waiting.append(Waiting(request.id, last[request.pool_id], explainer.reasons(request), *start))
    return waiting


def _estimates(cycle: Cycle, now_us: int, ordered: Iterable[Request]) -> dict[str, Range]:
    """When those that wait for room alone may start: by claim, by reservation, or in their turn."""
    claims = {request.id: (request, tasks) for request, tasks in cycle.claims}
    found: dict[str, Range] = {}
    lines: dict[str, list[tuple[Request, Ask]]] = {}
    for request in ordered:
        line = lines.setdefault(request.pool_id, [])
        if request.id in claims:
            found[request.id] = now_us, None
        elif len(line) < LOOKED_AT and (shape := cycle.waits_for_room(request)) is not None:
            line.append((request, shape.ask))
    for pool_id, line in lines.items():
        if line:
            ground = cycle.grounds[pool_id]
            claiming = [begun(request, tasks, now_us) for request, tasks in claims.values()]
            works = [*cycle.ending_in(ground), *(work for work in claiming if work.pool_id == pool_id)]
            found |= estimate(ground, line, endings(works, now_us), now_us)
    for request, _, starts_at_us in cycle.reserved.values():
        found[request.id] = starts_at_us, starts_at_us
    return found
