"""The simulated fleet: what is free, who holds what, what each quota scope has used."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from scheduler.fairness import SECOND_US, accrued
from scheduler.model import (
    WHOLE_CARD_MILLI,
    Device,
    Kind,
    LendingRule,
    Limit,
    Node,
    Placement,
    Pool,
    Reserve,
    Running,
    Scope,
    TaskPlacement,
)
from scheduler.simulator.scenario import GroupPart, Nodes, PoolPart, QuotaPart, Scenario
from scheduler.simulator.streams import Work

_QUANTITIES: Final = ("gpu_milli", "cpu_milli", "memory_mib", "environments", "running_jobs")


class Fleet:
    """Nodes and quota scopes as rows of a snapshot, kept up to date as work comes and goes.

    Raises RuntimeError when more is taken than there is: a plan that does it is wrong.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.pools = tuple(_pool(part) for part in scenario.pools)
        self.lending = tuple(_lending(scenario))
        self.reserves = tuple(_reserves(scenario))
        self.edges = [
            *((rule.windows, rule.notice_s) for rule in self.lending),
            *((reserve.windows, 0) for reserve in self.reserves),
        ]
        self._half_life_s = round(scenario.half_life_h * 3600)
        self._nodes = {node.id: node for part in scenario.pools for node in _nodes(part)}
        self._scopes = {scope.id: scope for scope in _scopes(scenario)}
        self._counted: dict[str, list[str]] = {}  # by group, user and pool: the scopes that count it
        self._usage_at_us: dict[str, int] = {}
        self.cards = sum(len(node.devices) for node in self._nodes.values())

    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes.values())

    def scopes(self, now_us: int) -> tuple[Scope, ...]:
        """All scopes, with the groups' usage as of now."""
        for name in self._usage_at_us:
            self._bring_up(name, now_us)
        return tuple(self._scopes.values())

    def take(self, work: Work, placement: Placement, now_us: int) -> None:
        self._move(work, placement.tasks, placement.card_milli, 1, now_us)

    def give_back(self, work: Work, running: Running, now_us: int) -> None:
        self._move(work, running.tasks, running.card_milli, -1, now_us)

    def _move(self, work: Work, tasks: Iterable[TaskPlacement], card_milli: int, sign: int, now_us: int) -> None:
        for task in tasks:
            self._nodes[task.node_id] = _moved(self._nodes[task.node_id], work, task, sign)
        asked = work.resources
        amounts = (
            card_milli,
            asked.cpu_milli,
            asked.memory_mib,
            int(work.kind is Kind.ENVIRONMENT),
            int(work.kind is Kind.JOB),
        )
        for name in self._counting(work):
            if name in self._usage_at_us:
                self._bring_up(name, now_us)
            scope = self._scopes[name]
            changed: dict[str, Any] = {}
            for quantity, amount in zip(_QUANTITIES, amounts, strict=True):
                limit: Limit = getattr(scope, quantity)
                used = limit.used + sign * amount
                if used < 0 or (sign > 0 and amount and limit.limit is not None and used > limit.limit):
                    raise RuntimeError(f"{quantity} of scope {name} would be {used} of {limit.limit}")
                changed[quantity] = replace(limit, used=used)
            self._scopes[name] = replace(scope, **changed)

    def _counting(self, work: Work) -> list[str]:
        key = f"{work.group_id}\n{work.user_id}\n{work.pool_id}"
        if key not in self._counted:
            self._counted[key] = [
                scope.id
                for scope in self._scopes.values()
                if scope.group_id == work.group_id
                and scope.user_id in (None, work.user_id)
                and scope.pool_id in (None, work.pool_id)
            ]
            for name in self._counted[key]:
                scope = self._scopes[name]
                if scope.user_id is None and scope.pool_id is not None:
                    self._usage_at_us.setdefault(name, work.arrives_us)
        return self._counted[key]

    def _bring_up(self, name: str, now_us: int) -> None:
        elapsed_us = now_us - self._usage_at_us[name]
        if elapsed_us < SECOND_US:  # a shorter step is not worth its rounding
            return
        scope = self._scopes[name]
        usage = accrued(scope.usage, scope.gpu_milli.used, elapsed_us, self._half_life_s)
        self._scopes[name] = replace(scope, usage=usage)
        self._usage_at_us[name] = now_us


def _moved(node: Node, work: Work, task: TaskPlacement, sign: int) -> Node:
    shares = {share.device_id: share for share in task.shares}
    devices = tuple(
        replace(
            device,
            free_memory_mib=device.free_memory_mib - sign * shares[device.id].memory_mib,
            free_milli=device.free_milli - sign * shares[device.id].compute_milli,
        )
        if device.id in shares
        else device
        for device in node.devices
    )
    moved = replace(
        node,
        devices=devices,
        free_cpu_milli=node.free_cpu_milli - sign * work.resources.cpu_milli,
        free_memory_mib=node.free_memory_mib - sign * work.resources.memory_mib,
    )
    free = [moved.free_cpu_milli, moved.free_memory_mib, *(one.free_milli for one in devices)]
    if min(*free, *(one.free_memory_mib for one in devices)) < 0 or len(shares) != len(task.shares):
        raise RuntimeError(f"{work.id} does not fit on node {node.id}")
    if any(one.free_milli > WHOLE_CARD_MILLI or one.free_memory_mib > one.memory_mib for one in devices):
        raise RuntimeError(f"{work.id} gave back more than there is on node {node.id}")
    return moved


def _pool(part: PoolPart) -> Pool:
    return Pool(
        part.name,
        part.kinds,
        part.slices_per_gpu,
        part.gpu_reserve_mib,
        part.strategy,
        part.priority_gap,
        part.min_run_s,
    )


def _nodes(part: PoolPart) -> Iterator[Node]:
    number = 0
    for row in part.nodes:
        for _ in range(row.count):
            number += 1
            yield _node(f"{part.name}-{number:04}", part.name, row)


def _node(name: str, pool: str, row: Nodes) -> Node:
    devices = tuple(
        Device(f"{name}-gpu{place:02}", row.model, row.gpu_memory_mib, row.gpu_memory_mib, WHOLE_CARD_MILLI)
        for place in range(row.gpus)
    )
    return Node(name, pool, row.cpu_milli, row.memory_mib, row.cpu_milli, row.memory_mib, devices)


def _lending(scenario: Scenario) -> Iterator[LendingRule]:
    for part in scenario.lending:
        yield LendingRule(
            id=part.name,
            lender=part.lender,
            borrower=part.borrower,
            windows=part.windows,
            time_zone=scenario.time_zone,
            keep_free_slices=part.keep_free_slices,
            keep_free_cards=part.keep_free_cards,
            notice_s=part.notice_s,
            take_back=part.take_back,
        )


def _reserves(scenario: Scenario) -> Iterator[Reserve]:
    for part in scenario.reserves:
        yield Reserve(part.name, part.pool, part.slices, part.windows, scenario.time_zone)


def _scopes(scenario: Scenario) -> Iterator[Scope]:
    """Each group has a scope in each pool, with its usage; more where a quota says so."""
    for group in scenario.groups:
        own = {quota.pool: quota for quota in group.quotas if not quota.per_user}
        for pool in scenario.pools:
            yield _scope(group, own.pop(pool.name, QuotaPart(pool=pool.name)), None)
        for quota in own.values():
            yield _scope(group, quota, None)
        for quota in group.quotas:
            if quota.per_user:
                for number in range(1, group.users + 1):
                    yield _scope(group, quota, f"{group.name}-{number}")


def _scope(group: GroupPart, quota: QuotaPart, user: str | None) -> Scope:
    return Scope(
        id=f"{group.name}/{user or '*'}/{quota.pool or '*'}",
        group_id=group.name,
        user_id=user,
        pool_id=quota.pool,
        gpu_milli=Limit(quota.gpu_milli),
        cpu_milli=Limit(quota.cpu_milli),
        memory_mib=Limit(quota.memory_mib),
        environments=Limit(quota.max_environments),
        running_jobs=Limit(quota.max_running_jobs),
        guaranteed_milli=None if user else quota.guaranteed_milli,
        weight=quota.weight,
    )
