"""Short ways to say a scenario."""

from collections.abc import Mapping
from typing import Any

from scheduler.simulator.run import Simulation, simulate
from scheduler.simulator.scenario import Scenario, parse_scenario

WORKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri")


def plain_scenario(**changes: Any) -> dict[str, Any]:
    """Two pools of one node with two cards each, one group, nobody who asks for anything."""
    return {
        "name": "small",
        "weeks": 1,
        "warmup_weeks": 0,
        "pools": [
            {"name": "dev", "kinds": ["environment"], "slices_per_gpu": 8, "nodes": [{"gpus": 2}]},
            {"name": "train", "kinds": ["job"], "nodes": [{"gpus": 2}]},
        ],
        "groups": [{"name": "vision", "users": 2}],
        **changes,
    }


def a_scenario(**changes: Any) -> Scenario:
    return parse_scenario(plain_scenario(**changes))


def results_of(**changes: Any) -> dict[str, Any]:
    return simulate(a_scenario(**changes))


def a_simulation(**changes: Any) -> Simulation:
    scenario = a_scenario(**changes)
    return Simulation(scenario, scenario.seed)


def some_developers(count: int = 8, hours: float = 8, **changes: Any) -> dict[str, Any]:
    arrivals = {"kind": "fixed", "at": "09:00", "hours": hours, "count": count}
    return {"name": "developers", "pool": "dev", "arrivals": arrivals, **changes}


def some_jobs(hours: float = 12, backlog: int = 4, **changes: Any) -> dict[str, Any]:
    """Jobs of one card without end."""
    return {
        "name": "jobs",
        "pool": "train",
        "arrivals": {"kind": "saturated", "backlog_per_group": backlog},
        "length": {"kind": "fixed", "hours": hours},
        **changes,
    }


def a_rule(**changes: Any) -> Mapping[str, Any]:
    return {"name": "idle", "lender": "dev", "borrower": "train", **changes}
