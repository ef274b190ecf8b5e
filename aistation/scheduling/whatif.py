"""The present fleet as a scenario of the simulator, with a load and one changed lending rule."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from aistation.fleet.selectors import scheduler_lending, scheduler_nodes, scheduler_pools, scheduler_reserves
from aistation.quotas.selectors import scheduler_scopes
from aistation.tenancy.policy import Action, Actor
from aistation.tenancy.selectors import count_members, require
from scheduler.model import LendingRule, Node, Pool, Reserve, Scope, TakeBack, Window
from scheduler.simulator.scenario import parse_scenario
from scheduler.windows import format_minute

BACKLOG: Final = 8  # jobs that each group always has waiting
_NAME: Final = "what-if"
_CPU_MILLI: Final = 2_000
_MEMORY_MIB: Final = 8_192
_SHARE: Final = 4  # the most of a card's part of its node that a job of one card asks for is 3 of 4


@dataclass(frozen=True, slots=True)
class Load:
    """Who asks for what. A pool "" takes none of it."""

    job_pool: str = ""
    job_hours: int = 12
    environment_pool: str = ""
    environments: int = 0
    slices: int = 1


@dataclass(frozen=True, slots=True)
class Change:
    """The lending rule between two pools as it would be, in place of those there are."""

    lender: str
    borrower: str
    windows: Sequence[Sequence[int]]
    take_back: str
    keep_free_slices: int = 0


@dataclass(frozen=True, slots=True)
class Fleet:
    """What there is, as of one instant. ``members``: how many people each group has."""

    pools: Sequence[Pool]
    nodes: Sequence[Node]
    scopes: Sequence[Scope]
    lending: Sequence[LendingRule]
    reserves: Sequence[Reserve]
    members: Mapping[str, int]


def present_fleet(actor: Actor) -> Fleet:
    """Nodes that take work with the cards that do. A fixed number of queries."""
    require(actor, Action.MANAGE_POOLS)
    return Fleet(
        pools=scheduler_pools(),
        nodes=[
            replace(node, devices=tuple(card for card in node.devices if card.usable))
            for node in scheduler_nodes()
            if node.schedulable
        ],
        scopes=scheduler_scopes(),
        lending=scheduler_lending(),
        reserves=scheduler_reserves(),
        members=count_members(),
    )


def zone_of(fleet: Fleet) -> str:
    """Whose clock the simulation follows: the one that most rules and reserves do."""
    zones = Counter([*(rule.time_zone for rule in fleet.lending), *(one.time_zone for one in fleet.reserves)])
    return min(zones, key=lambda name: (-zones[name], name), default="UTC")


def scenario_of(fleet: Fleet, load: Load, change: Change | None, now: datetime) -> dict[str, Any]:
    """A week of this load, after one to settle, as plain values. Raises ScenarioError, with what is wrong with it."""
    zone = zone_of(fleet)
    today = now.astimezone(ZoneInfo(zone)).date()
    monday = today - timedelta(days=today.weekday())
    data: dict[str, Any] = {
        "name": _NAME,
        "time_zone": zone,
        "start": monday.isoformat(),
        "weeks": 1,
        "warmup_weeks": 1,
        "pools": [_pool(pool, fleet.nodes) for pool in fleet.pools],
        "lending": [_lending(rule, zone, now) for rule in _rules(fleet.lending, change, zone)],
        "reserves": [_reserve(reserve, zone, now) for reserve in fleet.reserves],
        "groups": [_group(name, count, fleet.scopes) for name, count in sorted(fleet.members.items())],
        "environments": _environments(fleet, load),
        "jobs": _jobs(fleet, load),
    }
    parse_scenario(data)
    return data


def _pool(pool: Pool, nodes: Iterable[Node]) -> dict[str, Any]:
    alike = Counter(_hardware(node) for node in nodes if node.pool_id == pool.id)
    names = ("gpus", "model", "gpu_memory_mib", "cpu_milli", "memory_mib")
    return {
        "name": pool.id,
        "kinds": sorted(kind.value for kind in pool.kinds),
        "slices_per_gpu": pool.slices_per_gpu,
        "gpu_reserve_mib": pool.gpu_reserve_mib,
        "strategy": pool.strategy.value,
        "priority_gap": pool.priority_gap,
        "min_run_s": pool.min_run_s,
        "nodes": [
            {"count": count, **dict(zip(names, hardware, strict=True))}
            for hardware, count in sorted(alike.items())
            if hardware[3] and hardware[4]
        ],
    }


def _hardware(node: Node) -> tuple[int, str, int, int, int]:
    """A node whose cards differ counts as one of its most usual model, each with the least memory."""
    models = Counter(card.model for card in node.devices)
    model = min(models, key=lambda name: (-models[name], name), default="none")
    memory = min((card.memory_mib for card in node.devices), default=1)
    return len(node.devices), model, memory, node.cpu_milli, node.memory_mib


def _rules(rules: Iterable[LendingRule], change: Change | None, zone: str) -> list[LendingRule]:
    if change is None:
        return list(rules)
    kept = [rule for rule in rules if (rule.lender, rule.borrower) != (change.lender, change.borrower)]
    windows = tuple(Window(start, end) for start, end in change.windows)
    changed = LendingRule(
        id=_NAME,
        lender=change.lender,
        borrower=change.borrower,
        windows=windows,
        time_zone=zone,
        keep_free_slices=change.keep_free_slices,
        take_back=TakeBack(change.take_back),
    )
    return [*(rule for rule in kept if rule.id != _NAME), changed]


def _lending(rule: LendingRule, zone: str, now: datetime) -> dict[str, Any]:
    return {
        "name": rule.id,
        "lender": rule.lender,
        "borrower": rule.borrower,
        "windows": _shifted(rule.windows, rule.time_zone, zone, now),
        "keep_free_slices": rule.keep_free_slices,
        "keep_free_cards": rule.keep_free_cards,
        "notice_s": rule.notice_s,
        "take_back": rule.take_back.value,
    }


def _reserve(reserve: Reserve, zone: str, now: datetime) -> dict[str, Any]:
    windows = _shifted(reserve.windows, reserve.time_zone, zone, now)
    return {"name": reserve.id, "pool": reserve.pool_id, "slices": reserve.slices, "windows": windows}


def _shifted(windows: Iterable[Window], time_zone: str, zone: str, now: datetime) -> list[list[str]]:
    """In the other zone's time, by how far the clocks are apart today."""
    there, here = (now.astimezone(ZoneInfo(name)).utcoffset() or timedelta() for name in (zone, time_zone))
    minutes = (there - here) // timedelta(minutes=1)
    return [[format_minute(one.start + minutes), format_minute(one.end + minutes)] for one in windows]


def _group(name: str, members: int, scopes: Iterable[Scope]) -> dict[str, Any]:
    """With the group's own quotas. Those of single people are left out: the simulated ones are all alike."""
    quotas = [
        {
            "pool": scope.pool_id,
            "gpu_milli": scope.gpu_milli.limit,
            "guaranteed_milli": scope.guaranteed_milli,
            "cpu_milli": scope.cpu_milli.limit,
            "memory_mib": scope.memory_mib.limit,
            "max_environments": scope.environments.limit,
            "max_running_jobs": scope.running_jobs.limit,
            "weight": scope.weight,
        }
        for scope in scopes
        if scope.group_id == name and scope.user_id is None
    ]
    return {"name": name, "users": max(1, members), "quotas": quotas}


def _jobs(fleet: Fleet, load: Load) -> list[dict[str, Any]]:
    if not load.job_pool:
        return []
    borrowed = [node for node in fleet.nodes if node.devices]
    cpu = min((node.cpu_milli // len(node.devices) for node in borrowed), default=_CPU_MILLI)
    memory = min((node.memory_mib // len(node.devices) for node in borrowed), default=_MEMORY_MIB)
    return [
        {
            "name": "jobs",
            "pool": load.job_pool,
            "arrivals": {"kind": "saturated", "backlog_per_group": BACKLOG},
            "length": {"kind": "fixed", "hours": load.job_hours},
            "save_s": 120,
            "resume_s": 180,
            "cpu_milli_per_gpu": max(1, min(_CPU_MILLI, cpu * (_SHARE - 1) // _SHARE)),
            "memory_mib_per_gpu": max(1, min(_MEMORY_MIB, memory * (_SHARE - 1) // _SHARE)),
        }
    ]


def _environments(fleet: Fleet, load: Load) -> list[dict[str, Any]]:
    if not load.environment_pool or not load.environments:
        return []
    is_cut = any(pool.slices_per_gpu for pool in fleet.pools if pool.id == load.environment_pool)
    return [
        {
            "name": "environments",
            "pool": load.environment_pool,
            "arrivals": {"kind": "fixed", "at": "09:00", "hours": 8.6, "count": load.environments},
            "resources": {"gpus": 1, "gpu_slices": load.slices if is_cut else None},
        }
    ]
