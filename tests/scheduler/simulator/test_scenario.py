import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.model import Window
from scheduler.simulator.scenario import ScenarioError, parse_scenario
from tests.scheduler.simulator.scenarios import a_rule, plain_scenario, some_developers, some_jobs

FILES = sorted((Path(__file__).parents[3] / "scenarios").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_scenario_of_the_product_is_sound_and_bears_its_file_s_name(path: Path) -> None:
    assert parse_scenario(json.loads(path.read_text(encoding="utf-8"))).name == path.stem


def test_windows_and_times_are_said_as_people_do() -> None:
    scenario = parse_scenario(
        plain_scenario(lending=[a_rule(windows=[["Fri 20:00", "Mon 08:00"]])], environments=[some_developers()])
    )
    assert scenario.lending[0].windows == (Window(4 * 1440 + 1200, 480),)
    assert scenario.environments[0].arrivals.at == 540  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weeks": 0}, r"weeks: .* greater than or equal to 1"),
        ({"pools": []}, "pools"),
        ({"colour": "red"}, "colour: Extra inputs"),
        ({"time_zone": "Europe/Atlantis"}, "no such time zone: 'Europe/Atlantis'"),
        ({"start": "2026-01-06"}, "start must be a Monday"),
        ({"groups": [{"name": "a"}, {"name": "a"}]}, "groups: the name 'a' is there twice"),
        ({"lending": [a_rule(lender="night")]}, "lending.0.lender: there is no 'night', only dev, train"),
        ({"lending": [a_rule(windows=[["Fri 20:00"]])]}, r"lending.0.windows.0: a window is two times"),
        ({"lending": [a_rule(windows=[["Fri 25:00", "Mon 08:00"]])]}, r"lending.0.windows.0: no such time"),
        ({"jobs": [some_jobs(over_ask=0.5)]}, "jobs.0.over_ask"),
        ({"jobs": [some_jobs(gpus={"0": 1})]}, "jobs.0: gpus must be 1 or more"),
        ({"jobs": [some_jobs(gpus={"1": 0})]}, "jobs.0: the weights of gpus"),
        ({"jobs": [some_jobs(groups=["nobody"])]}, "jobs.0.groups: there is no 'nobody'"),
        ({"environments": [some_developers(hours=-1)]}, r"environments.0.arrivals.fixed.hours"),
    ],
)
def test_a_fault_is_told_with_the_path_of_its_value(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        parse_scenario(plain_scenario(**changes))


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(plain_scenario(weeks=0, seed="x"))
    assert len(str(raised.value).splitlines()) == 2
