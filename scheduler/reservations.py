"""When a blocked request could start by the time limits of what runs, and where: the reservation of EASY backfilling.

As in the ANL/IBM SP scheduler (Lifka 1995, in the terms of Mu'alem and Feitelson 2001) one request a pool has a
reservation, the first in order that is blocked; others may start when they end by its start or use what it leaves.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.capacity import Ask, NodeRoom, PoolRoom
from scheduler.filters import room_on
from scheduler.ground import Ground, Tasks, copied, release
from scheduler.model import Request, Running
from scheduler.search import Search
from scheduler.windows import SECOND_US


@dataclass(frozen=True, slots=True)
class Opening:
    """The earliest start of a request. ``spare``: the pool at that time, without what the request then takes."""

    at_us: int
    tasks: Tasks
    spare: PoolRoom


def endings(works: Iterable[Running], now_us: int, at_once: Sequence[Running] = ()) -> list[tuple[int, Running]]:
    """Work in the order in which it gives its room back; what has no time limit never does. ``at_once``: work that
    would leave if asked."""
    asked = {work.id for work in at_once}
    found = [(now_us, work) for work in at_once]
    for work in works:
        if work.ends_at_us is not None and work.id not in asked:
            found.append((max(now_us, work.ends_at_us), work))
    return sorted(found, key=lambda one: (one[0], one[1].id))


def begun(request: Request, tasks: Tasks, now_us: int) -> Running:
    """The request as work that starts now."""
    limit_s = request.time_limit_s
    return Running(
        id=request.id,
        kind=request.kind,
        group_id=request.group_id,
        user_id=request.user_id,
        pool_id=request.pool_id,
        resources=request.resources,
        tasks=tasks,
        priority=request.priority,
        queued_at_us=request.queued_at_us,
        ends_at_us=None if limit_s is None else now_us + limit_s * SECOND_US,
    )


def find_opening(ask: Ask, ground: Ground, ends: Sequence[tuple[int, Running]]) -> Opening | None:
    """The first time at which all tasks fit, as work ends; None when they never do."""
    at_us = first_fit(ask, ground, ends)
    if at_us is None:
        return None
    room = ground.twin(ground.coming or ground.now)
    for ends_us, work in ends:
        if ends_us > at_us:
            break
        for task in work.tasks:
            index = ground.index_of.get(task.node_id)
            if index is not None:
                release(room.nodes[index], work, task)
    tasks = Search(room, ask).place()
    return None if tasks is None else Opening(at_us, tasks, room)


def first_fit(ask: Ask, ground: Ground, ends: Sequence[tuple[int, Running]]) -> int | None:
    """The time of the first ending after which all tasks fit; None when they never do."""
    base = ground.coming or ground.now
    nodes: dict[int, NodeRoom] = {}
    held: dict[int, int] = {}
    total = 0
    if ask.tasks > 1:
        held = {index: room_on(ask, node) for index, node in enumerate(base.nodes) if node.is_open}
        total = sum(held.values())
    touched: set[int] = set()
    for place, (at_us, work) in enumerate(ends):
        for task in work.tasks:
            index = ground.index_of.get(task.node_id)
            if index is None or not base.nodes[index].is_open:
                continue
            if index not in nodes:
                nodes[index] = copied(base.nodes[index])
            release(nodes[index], work, task)
            touched.add(index)
        if place + 1 < len(ends) and ends[place + 1][0] == at_us:
            continue
        for index in touched:
            count = room_on(ask, nodes[index])
            total += count - held.get(index, 0)
            held[index] = count
        touched.clear()
        if total >= ask.tasks:
            return at_us
    return None
