"""A small cluster that does what plans say: work starts, ends by its time limit, leaves when asked, queues again."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from scheduler.decide import decide
from scheduler.fairness import SECOND_US
from scheduler.model import Node, Placement, Plan, Request, Running, Scope, Snapshot, TaskPlacement
from tests.scheduler.builders import after, applies, charges


def running(request: Request, placement: Placement, now_us: int) -> Running:
    limit_s = request.time_limit_s
    return Running(
        id=request.id,
        kind=request.kind,
        group_id=request.group_id,
        user_id=request.user_id,
        pool_id=request.pool_id,
        resources=request.resources,
        tasks=placement.tasks,
        priority=request.priority,
        queued_at_us=request.queued_at_us,
        started_at_us=now_us,
        ends_at_us=None if limit_s is None else now_us + limit_s * SECOND_US,
        preemptible=request.preemptible,
        card_milli=placement.card_milli,
    )


class World:
    """``snapshot`` is always what a scheduler would read now."""

    def __init__(self, snapshot: Snapshot, *, leave_s: int = 30) -> None:
        self.snapshot = snapshot
        self.leave_s = leave_s
        self.requests = {request.id: request for request in snapshot.pending}
        self.gone_at_us: dict[str, int] = {}
        self.started_at_us: dict[str, int] = {}
        self.ended: set[str] = set()
        self.preempted: list[str] = []

    @property
    def running(self) -> dict[str, Running]:
        return {work.id: work for work in self.snapshot.running}

    def submit(self, *requests: Request) -> None:
        self.requests |= {request.id: request for request in requests}
        self.snapshot = replace(self.snapshot, pending=(*self.snapshot.pending, *requests))

    def decide(self) -> Plan:
        """One cycle, carried out at once."""
        plan = decide(self.snapshot)
        now_us = self.snapshot.now_us
        started = tuple(running(self.requests[one.request_id], one, now_us) for one in plan.placements)
        self.started_at_us |= {work.id: now_us for work in started}
        for preemption in plan.preemptions:
            assert not self.running[preemption.workload_id].is_leaving
            self.gone_at_us[preemption.workload_id] = now_us + self.leave_s * SECOND_US
            self.preempted.append(preemption.workload_id)
        promised = {one.request_id: one.starts_at_us for one in plan.reservations}
        self.snapshot = after(self.snapshot, plan)
        self.snapshot = replace(
            self.snapshot,
            running=tuple(
                replace(work, is_leaving=work.id in self.gone_at_us) for work in (*self.snapshot.running, *started)
            ),
            pending=tuple(
                replace(one, promised_us=promised[one.id]) if one.id in promised and one.promised_us is None else one
                for one in self.snapshot.pending
            ),
        )
        return plan

    def wait(self, seconds: int) -> None:
        """Time passes: what has a limit ends, what was asked to leave queues again under its id and place."""
        self.snapshot = replace(self.snapshot, now_us=self.snapshot.now_us + seconds * SECOND_US)
        for work in self.snapshot.running:
            gone_at_us = self.gone_at_us.get(work.id)
            if work.ends_at_us is not None and work.ends_at_us <= self.snapshot.now_us:
                self.release(work)
                self.ended.add(work.id)
            elif gone_at_us is not None and gone_at_us <= self.snapshot.now_us:
                self.release(work)
                self.submit(self.requests[work.id])

    def release(self, work: Running) -> None:
        self.gone_at_us.pop(work.id, None)
        left = tuple(one for one in self.snapshot.running if one.id != work.id)
        self.snapshot = replace(freed(self.snapshot, [work], self.requests), running=left)


def freed(snapshot: Snapshot, works: Iterable[Running], requests: dict[str, Request]) -> Snapshot:
    """The snapshot with what these hold given back to nodes and quotas."""
    for work in works:
        nodes = {node.id: node for node in snapshot.nodes}
        for task in work.tasks:
            nodes[task.node_id] = _without(nodes[task.node_id], work, task)
        scopes = tuple(_credited(scope, requests[work.id], work.card_milli) for scope in snapshot.scopes)
        snapshot = replace(snapshot, nodes=tuple(nodes[node.id] for node in snapshot.nodes), scopes=scopes)
    return snapshot


def _without(node: Node, work: Running, task: TaskPlacement) -> Node:
    back = {share.device_id: share for share in task.shares}
    devices = tuple(
        replace(
            device,
            free_memory_mib=device.free_memory_mib + back[device.id].memory_mib,
            free_milli=device.free_milli + back[device.id].compute_milli,
        )
        if device.id in back
        else device
        for device in node.devices
    )
    return replace(
        node,
        devices=devices,
        free_cpu_milli=node.free_cpu_milli + work.resources.cpu_milli,
        free_memory_mib=node.free_memory_mib + work.resources.memory_mib,
    )


def _credited(scope: Scope, request: Request, card_milli: int) -> Scope:
    if not applies(scope, request):
        return scope
    changed: dict[str, Any] = {}
    for name, amount in charges(request, card_milli).items():
        limit = getattr(scope, name)
        changed[name] = replace(limit, used=limit.used - amount)
    return replace(scope, **changed)
