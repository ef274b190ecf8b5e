from datetime import date
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from scheduler.simulator.scenario import FixedLength, LogNormalLength
from scheduler.simulator.streams import HOUR_US, EnvironmentStream, JobStream, local_us, mean_length_h
from tests.scheduler.simulator.scenarios import a_scenario, some_developers, some_jobs

BERLIN = ZoneInfo("Europe/Berlin")
POISSON = {
    "kind": "poisson",
    "per_day": 100,
    "weekend_per_day": 6,
    "hourly": [0] * 9 + [1] * 8 + [0] * 7,
    "median_h": 2,
    "sigma": 0.5,
    "max_h": 6,
}
MIX = {"kind": "log_normal", "median_h": 4, "sigma": 1, "min_h": 0.1, "max_h": 48}


def test_fixed_environments_open_on_workdays_at_local_time_also_after_a_change_of_the_clocks() -> None:
    scenario = a_scenario(start="2026-03-23", time_zone="Europe/Berlin", environments=[some_developers(count=1)])
    works = list(EnvironmentStream(scenario, scenario.environments[0], 1, 2).arrivals())
    assert [work.arrives_us for work in works] == [
        local_us(date(2026, 3, day), 540, BERLIN) for day in (23, 24, 25, 26, 27, 30, 31)
    ] + [local_us(date(2026, 4, day), 540, BERLIN) for day in (1, 2, 3)]


def test_members_of_the_groups_come_in_turn() -> None:
    scenario = a_scenario(
        groups=[{"name": "a", "users": 2}, {"name": "b", "users": 1}], environments=[some_developers(count=6)]
    )
    works = islice(EnvironmentStream(scenario, scenario.environments[0], 1, 1).arrivals(), 6)
    assert [work.user_id for work in works] == ["a-1", "b-1", "a-2", "b-1", "a-1", "b-1"]


def test_random_environments_keep_to_their_numbers_and_hours() -> None:
    scenario = a_scenario(environments=[some_developers(arrivals=POISSON)])
    works = list(EnvironmentStream(scenario, scenario.environments[0], 1, 20).arrivals())
    on_workdays = [work for work in works if date.fromordinal(719_163 + work.arrives_us // HOUR_US // 24).weekday() < 5]
    assert len(on_workdays) == pytest.approx(100 * 5 * 20, rel=0.05)
    assert len(works) - len(on_workdays) == pytest.approx(6 * 2 * 20, rel=0.2)
    assert {work.arrives_us // HOUR_US % 24 for work in on_workdays} == set(range(9, 17))
    assert max(work.length_us for work in works) == 6 * HOUR_US
    assert [work.arrives_us for work in works] == sorted(work.arrives_us for work in works)


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    scenario = a_scenario(jobs=[some_jobs(length=MIX, over_ask=2)])
    first, again, other = (JobStream(scenario, scenario.jobs[0], seed) for seed in (1, 1, 2))
    drawn = [[stream.draw(0).length_us for _ in range(20)] for stream in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_jobs_follow_their_mix_and_ask_for_more_than_they_need() -> None:
    mix = some_jobs(gpus={"1": 3, "8": 1}, priority={"50": 1, "70": 1}, length=MIX, over_ask=1.5, preemptible=0.5)
    scenario = a_scenario(jobs=[mix])
    stream = JobStream(scenario, scenario.jobs[0], 1)
    works = [stream.draw(0) for _ in range(4_000)]
    assert sum(work.cards == 8 for work in works) == pytest.approx(1_000, rel=0.1)
    assert sum(work.priority == 70 for work in works) == pytest.approx(2_000, rel=0.1)
    assert sum(work.preemptible for work in works) == pytest.approx(2_000, rel=0.1)
    asked = [(work.limit_us or 0) / work.length_us for work in works]
    assert 1 <= min(asked) <= max(asked) <= 1.51
    assert sum(asked) / len(asked) == pytest.approx(1.25, rel=0.02)


def test_the_mean_of_cut_off_lengths_is_that_of_what_is_drawn() -> None:
    scenario = a_scenario(jobs=[some_jobs(length=MIX)])
    stream = JobStream(scenario, scenario.jobs[0], 1)
    drawn = [stream.draw(0).length_us / HOUR_US for _ in range(20_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(mean_length_h(LogNormalLength(**MIX)), rel=0.03)
    assert mean_length_h(FixedLength(kind="fixed", hours=3)) == 3


def test_random_jobs_ask_for_the_offered_load_and_come_by_day() -> None:
    arrivals = {"kind": "poisson", "offered_load": 0.8, "day_factor": 2}
    scenario = a_scenario(jobs=[some_jobs(hours=2, arrivals=arrivals, gpus={"1": 1, "2": 1})])
    times = list(JobStream(scenario, scenario.jobs[0], 1).arrival_times(scenario.start, 50))
    assert len(times) * 1.5 * 2 == pytest.approx(0.8 * 4 * 168 * 50, rel=0.03)
    by_day = [at for at in times if 9 <= at // HOUR_US % 24 < 21 and (at // HOUR_US // 24 + 3) % 7 < 5]
    assert len(by_day) / len(times) == pytest.approx(2 * 60 / 168, rel=0.05)
