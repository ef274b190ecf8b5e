import json
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings

from scheduler.decide import decide
from scheduler.model import (
    Demand,
    Kind,
    LendingRule,
    Mix,
    Reserve,
    Running,
    Share,
    Snapshot,
    TakeBack,
    TaskPlacement,
    Window,
)
from scheduler.snapshot_json import dump, load
from tests.scheduler.builders import a_device, a_job, a_node, a_scope, a_snapshot, some_resources
from tests.scheduler.test_decide_properties import snapshots


@given(snapshots())
@settings(max_examples=20, deadline=None)
def test_a_snapshot_survives_the_way_through_json_and_replays_the_same_plan(snapshot: Snapshot) -> None:
    again = load(json.loads(json.dumps(dump(snapshot))))
    assert again == snapshot
    assert decide(again) == decide(snapshot)


def test_fields_that_an_older_dump_lacks_take_their_defaults() -> None:
    snapshot = a_snapshot([a_node(gpus=1)], [a_job(gpus=1)], scopes=[a_scope(cpu_milli=5)])
    data = dump(snapshot)
    del data["pools"][0]["strategy"]
    del data["nodes"][0]["devices"][0]["usable"]
    del data["scopes"][0]["environments"]
    del data["pending"][0]["held"]
    assert load(data) == snapshot


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 1"):
        load({**dump(a_snapshot([a_node(devices=[a_device("a")])])), "format": 2})


def test_what_runs_is_lent_and_is_reserved_survives_too() -> None:
    tasks = (TaskPlacement(0, "n1", (Share("n1-gpu0", 32_510, 1000, whole=True),)),)
    snapshot = replace(
        a_snapshot([replace(a_node(gpus=1), labels=frozenset({"b=2", "a=1"}))], [replace(a_job(), time_limit_s=60)]),
        running=(Running("r1", Kind.JOB, "vision", "ada", "pool", some_resources(1), tasks, 50, 3, ends_at_us=9),),
        lending=(LendingRule("l1", "dev", "pool", (Window(1, 2),), "Europe/Berlin", 1, 2, 3, TakeBack.CHECKPOINT),),
        reserves=(Reserve("w1", "dev", 40, (Window(5, 6), Window(7, 8))),),
        mixes=(Mix("pool", (Demand(some_resources(1), 5),), 2),),
    )
    data = json.loads(json.dumps(dump(snapshot)))
    assert set(data) == {"format", *(field.name for field in fields(Snapshot))}
    assert load(data) == snapshot


def test_a_field_that_this_version_does_not_know_is_refused() -> None:
    data = dump(a_snapshot([a_node(gpus=1)]))
    data["nodes"][0]["devices"][0]["colour"] = "red"
    with pytest.raises(TypeError, match="Device has no field 'colour'"):
        load(data)
