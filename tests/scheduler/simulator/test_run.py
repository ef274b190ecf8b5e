"""Small clusters whose numbers can be counted by hand: two cards to train on and two, cut in 8, for developers."""

import pytest

from scheduler.simulator.run import simulate
from tests.scheduler.simulator.scenarios import (
    WORKDAYS,
    a_rule,
    a_scenario,
    a_simulation,
    results_of,
    some_developers,
    some_jobs,
)

NIGHTS = [
    ["Mon 20:00", "Tue 08:00"],
    ["Tue 20:00", "Wed 08:00"],
    ["Wed 20:00", "Thu 08:00"],
    ["Thu 20:00", "Fri 08:00"],
]
WINDOWS = [*NIGHTS, ["Fri 20:00", "Mon 08:00"]]
MIX = {"kind": "log_normal", "median_h": 4, "sigma": 1, "min_h": 0.1, "max_h": 48}
SAVING = {"save_s": 120, "resume_s": 180}


def test_cards_that_train_without_a_break() -> None:
    results = results_of(jobs=[some_jobs()])
    assert results["twelve_hour_equivalents_per_week"] == 28
    assert results["hours_per_card_per_day"] == 12  # half of the cards
    assert results["utilisation_percent"] == 45
    assert results["job_wait_s"]["max"] == 2 * 12 * 3600  # four wait for two cards


def test_environments_share_a_card_and_count_it_once() -> None:
    results = results_of(environments=[some_developers(count=9, hours=8)])
    assert results["environments_per_week"] == 45
    assert results["hours_per_card_per_day"] == round(2 * 8 * 5 / 4 / 7, 2)
    assert results["utilisation_percent"] == round(10 * 9 * 8 * 5 / (4 * 168), 2)
    assert results["hourly_environments"][9:18] == [9] * 8 + [0]
    assert results["hourly_allocation_percent"][9:18] == [50] * 8 + [0]


def test_spread_environments_take_a_card_each() -> None:
    pools = a_scenario().model_dump(mode="json")["pools"]
    pools[0]["strategy"] = "spread"
    assert results_of(pools=pools, environments=[some_developers(count=2)])["hourly_allocation_percent"][9] == 50


def test_who_finds_no_room_leaves_at_the_planned_time_and_that_was_the_wait() -> None:
    results = results_of(environments=[some_developers(count=20, hours=2)])
    assert results["environments_unserved_per_week"] == 4 * 5
    assert results["environment_wait_s"] == {"p50": 0, "p95": 7200, "max": 7200, "over_2_minutes": 20}


def test_no_more_environments_come_than_there_are_slots() -> None:
    assert results_of(environments=[some_developers(count=20, slots=3)])["environments_per_week"] == 15


def test_a_limit_holds_work_back() -> None:
    quotas = [{"pool": "train", "gpu_milli": 1000}]
    results = results_of(groups=[{"name": "vision", "quotas": quotas}], jobs=[some_jobs()])
    assert results["twelve_hour_equivalents_per_week"] == 14


def test_a_container_that_takes_time_to_start_holds_its_card_meanwhile() -> None:
    results = results_of(start_s=3600, jobs=[some_jobs(hours=11)])
    assert results["jobs_per_week"] == pytest.approx(2 * 14, abs=2)
    assert results["twelve_hour_equivalents_per_week"] == pytest.approx(2 * 14 * 11 / 12, abs=0.1)


def test_the_warm_up_is_not_counted() -> None:
    assert results_of(warmup_weeks=1, jobs=[some_jobs(hours=168)])["jobs_per_week"] == 2  # those of the first week
    assert results_of(warmup_weeks=1, jobs=[some_jobs(hours=100)])["twelve_hour_equivalents_per_week"] == 28


def test_groups_share_what_there_is() -> None:
    groups = [{"name": "vision"}, {"name": "speech"}]
    results = results_of(weeks=8, groups=groups, jobs=[some_jobs(hours=5)])
    assert results["share_per_group"] == pytest.approx({"vision": 0.5, "speech": 0.5}, abs=0.02)


def test_lent_in_windows_to_jobs_that_end_in_time() -> None:
    results = results_of(warmup_weeks=1, jobs=[some_jobs()], lending=[a_rule(windows=WINDOWS)])
    assert results["twelve_hour_equivalents_per_week"] == 28 + 2 * (4 + 5)
    assert results["lent_card_hours_per_week"] == 12 * 2 * (4 + 5)
    assert results["preemptions_per_week"] == 0
    longer = results_of(jobs=[some_jobs(hours=12.5)], lending=[a_rule(windows=NIGHTS)])
    assert longer["lent_card_hours_per_week"] == 0


def test_lent_at_any_time_and_taken_back_by_checkpoint() -> None:
    """Each workday at nine one job saves (2 min, developers wait) and is later resumed (3 min)."""
    scenario = {
        "warmup_weeks": 1,
        "environments": [some_developers(count=8, hours=8)],
        "jobs": [some_jobs(**SAVING)],
        "lending": [a_rule(take_back="checkpoint")],
    }
    results = results_of(**scenario)
    assert results["environment_wait_s"]["max"] == 120
    assert (results["preemptions_per_week"], results["reclaims_per_week"]) == (5, 5)
    assert results["lost_card_hours_per_week"] == pytest.approx(5 * 5 / 60, abs=0.02)
    free = 4 * 168 - 5 * (8 - 2 / 60) - 5 * 5 / 60
    assert results["twelve_hour_equivalents_per_week"] == pytest.approx(free / 12, abs=0.02)


def test_a_warm_reserve_spares_developers_the_wait() -> None:
    morning = {"name": "am", "pool": "dev", "slices": 8, "windows": [[f"{d} 08:50", f"{d} 09:10"] for d in WORKDAYS]}
    results = results_of(
        environments=[some_developers(count=8, hours=8)],
        jobs=[some_jobs(**SAVING)],
        lending=[a_rule(take_back="checkpoint")],
        reserves=[morning],
    )
    assert results["environment_wait_s"]["max"] == 0
    assert results["preemptions_per_week"] == 5


def test_a_job_that_cannot_save_loses_what_came_after_its_last_periodic_save() -> None:
    jobs = some_jobs(hours=168, saves=0, save_interval_s=7200)
    results = results_of(
        environments=[some_developers(count=8, hours=8)], jobs=[jobs], lending=[a_rule(take_back="checkpoint")]
    )
    assert results["environment_wait_s"]["max"] == 0  # it does not save, so it goes at once
    assert results["lost_card_hours_per_week"] == 1  # on Monday; later ones start at 17:00


def test_jobs_that_may_not_be_preempted_stay_off_cards_that_are_taken_back() -> None:
    results = results_of(jobs=[some_jobs(preemptible=0)], lending=[a_rule(take_back="checkpoint")])
    assert results["lent_card_hours_per_week"] == 0


def test_the_same_seed_gives_the_same_result_and_runs_are_averaged() -> None:
    changes = {
        "jobs": [some_jobs(length=MIX, gpus={"1": 3, "2": 1}, over_ask=1.5)],
        "lending": [a_rule(windows=WINDOWS)],
    }
    first, second = results_of(seed=1, **changes), results_of(seed=2, **changes)
    assert results_of(seed=1, **changes) == first != second
    both = simulate(a_scenario(seed=1, runs=2, **changes))
    name = "twelve_hour_equivalents_per_week"
    assert both[name] == pytest.approx((first[name] + second[name]) / 2, abs=0.001)


def test_a_large_job_under_a_stream_of_small_ones_starts() -> None:
    small = some_jobs(hours=1, length={"kind": "log_normal", "median_h": 1, "sigma": 0.5, "max_h": 4}, over_ask=1.2)
    large = some_jobs(backlog=1, name="large", gpus={"2": 1}, length={"kind": "fixed", "hours": 1})
    simulation = a_simulation(jobs=[small, {**large, "arrivals": {"kind": "saturated", "backlog_per_group": 1}}])
    results = simulation.run()
    assert results["jobs_per_week"] > 150
    assert simulation.meter.late_starts == 0


def test_what_is_lent_is_never_lent_twice_nor_kept_after_the_end() -> None:
    """The fleet raises when a plan takes more than there is; in the end all is free again."""
    simulation = a_simulation(environments=[some_developers(count=30, hours=5)])
    simulation.run()
    assert all(card.is_empty for node in simulation.fleet.nodes() for card in node.devices)
