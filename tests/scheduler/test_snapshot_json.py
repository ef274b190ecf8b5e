import json

import pytest
from hypothesis import given, settings

from scheduler.decide import decide
from scheduler.model import Snapshot
from scheduler.snapshot_json import dump, load
from tests.scheduler.builders import a_device, a_job, a_node, a_scope, a_snapshot
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
