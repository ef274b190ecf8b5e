"""The customer's case under six rules, a week of each: 32 cards, 50 developers, jobs of one card for 12 hours."""

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.simulator.overrides import override
from scheduler.simulator.run import simulate
from scheduler.simulator.scenario import parse_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def a_week_of(name: str, *settings: str) -> dict[str, Any]:
    data = json.loads((SCENARIOS / f"{name}.json").read_text(encoding="utf-8"))
    return simulate(parse_scenario(override(data, ["weeks=1", *settings])))


@pytest.mark.parametrize(
    ("name", "least", "most", "hours", "longest_wait_s"),
    [
        ("customer_night", 160, 160, 14.7, 31_104),  # a third of the developers has no card at all
        ("customer_static", 224, 224, 15.0, 0),
        ("customer_window", 368, 368, 22.8, 0),
        ("customer_packed", 413, 413, 23.4, 0),
        ("customer_reclaim", 422, 422.8, 24.0, 120),
        ("customer_warm", 411, 422.8, 23.4, 0),
    ],
)
def test_what_each_rule_brings(name: str, least: float, most: float, hours: float, longest_wait_s: int) -> None:
    results = a_week_of(name)
    assert least <= results["twelve_hour_equivalents_per_week"] <= most
    assert hours <= results["hours_per_card_per_day"] <= 24
    assert results["environment_wait_s"]["max"] == longest_wait_s
    assert min(results["share_per_group"].values()) > 0.19


@pytest.mark.parametrize(
    ("setting", "jobs"),
    [
        ('groups.*.quotas=[{"pool": "training", "gpu_milli": 6000}]', 350),  # 30 of 32 cards
        ("lending.idle-cards.keep_free_cards=1", 359),
        ("lending.idle-cards.keep_free_slices=8", 359),
        ("lending=[]", 224),
    ],
)
def test_what_if(setting: str, jobs: int) -> None:
    assert a_week_of("customer_window", setting)["jobs_per_week"] == jobs


def test_jobs_six_minutes_too_long_for_the_night_run_all_the_same_when_lent_cards_are_taken_back() -> None:
    assert a_week_of("cliff_night")["jobs_per_week"] == 0
    assert a_week_of("cliff_window")["twelve_hour_equivalents_per_week"] < 290
    assert a_week_of("cliff_reclaim")["twelve_hour_equivalents_per_week"] > 422
