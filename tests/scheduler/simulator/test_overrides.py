import pytest

from scheduler.simulator.overrides import override
from scheduler.simulator.scenario import ScenarioError

DATA = {"weeks": 4, "pools": [{"name": "dev", "nodes": [{"gpus": 8}, {"gpus": 4}]}, {"name": "train", "nodes": []}]}


def test_a_number_is_set_by_its_path() -> None:
    changed = override(DATA, ["weeks=1", "pools.dev.nodes.1.gpus=2", "pools.1.slices_per_gpu=4", "name=night run"])
    assert changed["weeks"] == 1
    assert changed["pools"][0]["nodes"] == [{"gpus": 8}, {"gpus": 2}]
    assert changed["pools"][1]["slices_per_gpu"] == 4
    assert changed["name"] == "night run"


def test_a_star_sets_all_entries_and_an_entry_can_be_replaced() -> None:
    changed = override(DATA, ["pools.dev.nodes.*.gpus=1", 'pools.train={"name": "t"}'])
    assert changed["pools"] == [{"name": "dev", "nodes": [{"gpus": 1}, {"gpus": 1}]}, {"name": "t"}]


def test_what_was_given_stays_as_it_was() -> None:
    override(DATA, ["pools.dev.nodes.0.gpus=1"])
    assert DATA["pools"][0]["nodes"][0] == {"gpus": 8}  # type: ignore[index]


@pytest.mark.parametrize(
    "setting", ["weeks", "=1", "pools.night.nodes=1", "pools.2.name=x", "weeks.days=1", "pools.dev.nodes.7=1"]
)
def test_a_path_that_is_not_there_is_named(setting: str) -> None:
    with pytest.raises(ScenarioError, match=setting.split("=")[0].split(".")[0] or "path"):
        override(DATA, [setting])
