"""Heartbeats that stop: ready, suspect, lost."""

from datetime import timedelta
from typing import Any

import pytest

from aistation.audit.models import AuditEvent
from aistation.fleet.models import Liveness, LivenessWatch, Node
from aistation.fleet.services import Sweep, sweep_liveness
from tests.aistation.fleet.builders import T0, a_node, a_pool, beat

pytestmark = pytest.mark.django_db


def after(seconds: int) -> Any:
    return T0 + timedelta(seconds=seconds)


def sweep_until(seconds: int, every: int = 5) -> list[Sweep]:
    """Sweeps from T0 on, as the beat sends them."""
    return [sweep_liveness(after(at)) for at in range(0, seconds + 1, every)]


def liveness(node: Node) -> str:
    return Node.objects.values_list("liveness", flat=True).get(pk=node.pk)


def test_a_silent_node_is_suspect_then_lost_and_its_next_heartbeat_brings_it_back() -> None:
    pool = a_pool()
    silent, beating = a_node(pool, "node-1"), a_node(pool, "node-2", last_heartbeat_at=after(10_000))
    assert sweep_until(10) == [Sweep()] * 3
    assert sweep_liveness(after(15)) == Sweep(suspect=(silent.pk,))
    assert sweep_liveness(after(20)) == Sweep()
    for at in range(25, 60, 5):
        sweep_liveness(after(at))
    assert liveness(silent) == Liveness.SUSPECT
    assert sweep_liveness(after(60)) == Sweep(lost=(silent.pk,))
    assert liveness(beating) == Liveness.READY
    assert beat(silent, now=after(61)).was == Liveness.LOST
    silent.refresh_from_db()
    assert (silent.state, silent.state_changed_at) == ("ready", after(61))
    assert list(AuditEvent.objects.order_by("pk").values_list("action", "actor")) == [
        ("node.lost", "system"),
        ("node.back", "node:node-1"),
    ]


def test_a_node_that_never_beat_is_left_alone() -> None:
    a_node(a_pool(), liveness=Liveness.LOST, last_heartbeat_at=None)
    assert set(sweep_until(100)) == {Sweep()}


def test_most_of_the_fleet_silent_at_once_is_not_lost_and_is_noted_once() -> None:
    """R5: three minutes without any heartbeat cost no node."""
    pool = a_pool()
    nodes = [a_node(pool, f"node-{index}", last_heartbeat_at=after(-index)) for index in range(4)]
    sweep_until(180)
    assert {liveness(node) for node in nodes} == {Liveness.SUSPECT}
    assert AuditEvent.objects.filter(action="fleet.freeze").count() == 1
    for node in nodes:
        beat(node, now=after(181))
    assert sweep_liveness(after(182)) == Sweep()
    assert LivenessWatch.objects.get().frozen_since is None
    assert AuditEvent.objects.filter(action="fleet.unfreeze").count() == 1
    assert not AuditEvent.objects.filter(action="node.lost").exists()


def test_a_freeze_of_five_minutes_ends_while_another_node_beats() -> None:
    pool = a_pool()
    dead = [a_node(pool, f"node-{index}") for index in range(2)]
    a_node(pool, "node-9", last_heartbeat_at=after(10_000))
    sweep_until(60 + 295)
    assert {liveness(node) for node in dead} == {Liveness.SUSPECT}
    assert sweep_liveness(after(60 + 300)).lost == tuple(node.pk for node in dead)


def test_after_our_own_outage_no_node_is_lost_for_a_minute() -> None:
    """R5: nobody swept for three minutes, so the silence may be ours."""
    pool = a_pool()
    node = a_node(pool)
    a_node(pool, "node-2", last_heartbeat_at=after(10_000))
    sweep_liveness(T0)
    assert sweep_liveness(after(180)) == Sweep(suspect=(node.pk,))
    for at in range(185, 240, 5):
        assert sweep_liveness(after(at)) == Sweep()
    assert sweep_liveness(after(240)) == Sweep(lost=(node.pk,))


def test_a_heartbeat_that_arrives_during_the_sweep_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = a_pool()
    node = a_node(pool)
    a_node(pool, "node-2", last_heartbeat_at=after(10_000))
    stale = Node.objects.get(pk=node.pk)
    beat(node, now=after(61))
    from aistation.fleet.services import liveness as module  # noqa: PLC0415 - the private step is what races

    assert module._change(stale, Liveness.LOST, after(61)) is False
    assert liveness(node) == Liveness.READY
