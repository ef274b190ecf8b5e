"""What a node reports is what the tables say, and no more is written than has changed."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from aistation.audit.models import AuditEvent
from aistation.core.errors import UnauthenticatedError
from aistation.fleet import services
from aistation.fleet.errors import NodeIdentityInUseError, RuntimeRefusedError
from aistation.fleet.models import Device, Liveness, Node
from tests.aistation.fleet.builders import T0, V100_MIB, a_device, a_node, a_pool, beat, card, facts_of

pytestmark = pytest.mark.django_db


def after(seconds: int) -> Any:
    return T0 + timedelta(seconds=seconds)


class TestTheNode:
    def test_the_first_heartbeat_makes_it_ready_with_all_it_has(self) -> None:
        node = a_node(
            a_pool(cpu_overcommit_percent=150),
            liveness=Liveness.LOST,
            last_heartbeat_at=None,
            cpu_milli=0,
            memory_mib=0,
        )
        first = beat(node, card(utilisation_percent=7), now=after(1), disk_used_percent=12, runtime_version="27.0")
        node.refresh_from_db()
        assert first == services.Beat(version=1, was=Liveness.LOST)
        assert (node.state, node.last_heartbeat_at, node.state_changed_at) == ("ready", after(1), after(1))
        assert (node.machine_cpu_milli, node.cpu_milli, node.memory_mib) == (48_000, 72_000, 393_216)
        assert (node.runtime, node.runtime_version, node.disk_used_percent) == ("docker", "27.0", 12)
        assert (node.devices.get().uuid, node.devices.get().utilisation_percent) == ("GPU-1", 7)

    def test_a_heartbeat_without_news_writes_two_rows_and_tells_nobody(
        self, django_capture_on_commit_callbacks: Any
    ) -> None:
        node = a_node(a_pool())
        cards = [card(f"GPU-{index}", utilisation_percent=50) for index in range(8)]
        beat(node, *cards)
        with (
            CaptureQueriesContext(
                connection,
            ) as queries,
            django_capture_on_commit_callbacks() as callbacks,
        ):
            beat(node, *cards, now=after(5))
        writes = [query["sql"] for query in queries if "UPDATE " in query["sql"].replace("FOR NO KEY UPDATE", "")]
        assert len(writes) == 2
        assert len([query for query in queries if "SAVEPOINT" not in query["sql"]]) == 5
        assert callbacks == []

    def test_news_reach_the_scheduler_and_the_map(self, django_capture_on_commit_callbacks: Any) -> None:
        node = a_node(a_pool())
        with django_capture_on_commit_callbacks() as callbacks:
            beat(node, card(), now=after(5))
        assert len(callbacks) == 2

    @pytest.mark.parametrize(
        ("before", "now"),
        [({"runtime_error": "no answer"}, {}), ({}, {"runtime_error": "no answer"}), ({"disk_used_percent": 90}, {})],
    )
    def test_a_node_that_can_or_cannot_work_any_more_is_news(
        self, before: dict[str, Any], now: dict[str, Any], django_capture_on_commit_callbacks: Any
    ) -> None:
        node = a_node(a_pool())
        beat(node, **before)
        with django_capture_on_commit_callbacks() as callbacks:
            beat(node, now=after(5), **now)
        assert len(callbacks) == 2

    def test_capacity_that_shrinks_below_what_is_taken_leaves_running_work_alone(self) -> None:
        node = a_node(a_pool(), cpu_taken_milli=40_000, memory_taken_mib=300_000)
        beat(node, cpu_milli=24_000, memory_mib=100_000)
        node.refresh_from_db()
        assert (node.cpu_milli, node.cpu_over_milli) == (24_000, 40_000)
        assert (node.memory_mib, node.memory_over_mib) == (100_000, 300_000)
        beat(node, now=after(5))
        node.refresh_from_db()
        assert (node.cpu_over_milli, node.memory_over_mib) == (0, 0)

    def test_a_removed_node_is_told(self) -> None:
        node = a_node(a_pool(), removed_at=T0)
        with pytest.raises(UnauthenticatedError):
            beat(node)

    def test_plain_processes_need_permission(self) -> None:
        node = a_node(a_pool(), liveness=Liveness.LOST)
        facts = facts_of(node, runtime="process")
        for seconds in (0, 5, 10):
            with pytest.raises(RuntimeRefusedError):
                services.record_heartbeat(node_id=node.pk, facts=facts, now=after(seconds), allow_process_runtime=False)
        node.refresh_from_db()
        assert node.state == "lost"
        assert AuditEvent.objects.get().action == "node.runtime_refused"
        services.record_heartbeat(node_id=node.pk, facts=facts, now=after(15), allow_process_runtime=True)


class TestIdentity:
    """B027: two agents with one identity."""

    def test_a_clone_is_refused_and_the_first_is_unaffected(self) -> None:
        node = a_node(a_pool())
        beat(node, card(), now=after(0))
        for seconds in (1, 6, 11, 62):
            with pytest.raises(NodeIdentityInUseError) as refused:
                beat(node, fingerprint="clone", cpu_milli=1, now=after(seconds))
            assert refused.value.code == "node_identity_in_use"
        node.refresh_from_db()
        assert (node.fingerprint, node.cpu_milli, node.last_heartbeat_at) == ("print-of-node-1", 48_000, T0)
        assert node.devices.get().present
        events = AuditEvent.objects.filter(action="node.identity_conflict").order_by("at")
        assert [event.at for event in events] == [after(1), after(62)]

    def test_a_clone_is_refused_while_the_node_is_only_suspect(self) -> None:
        node = a_node(a_pool(), liveness=Liveness.SUSPECT)
        with pytest.raises(NodeIdentityInUseError):
            beat(node, fingerprint="clone")

    @pytest.mark.parametrize("held", [{"cpu_taken_milli": 1}, {"memory_taken_mib": 1}])
    def test_a_lost_node_with_work_booked_on_it_waits_for_its_own_agent(self, held: dict[str, Any]) -> None:
        """Another one would report the containers as gone while they still run."""
        node = a_node(a_pool(), liveness=Liveness.LOST, **held)
        with pytest.raises(NodeIdentityInUseError):
            beat(node, fingerprint="clone")

    def test_a_lost_node_with_nothing_on_it_may_be_taken_over(self) -> None:
        """A renamed or moved machine. From then on the former agent is the second one."""
        node = a_node(a_pool(), liveness=Liveness.LOST)
        beat(node, fingerprint="new")
        assert AuditEvent.objects.filter(action="node.identity_change").count() == 1
        with pytest.raises(NodeIdentityInUseError):
            beat(node, fingerprint="print-of-node-1")


class TestCards:
    def test_a_card_that_vanishes_and_returns_keeps_its_row(self) -> None:
        node = a_node(a_pool())
        beat(node, card(temperature_c=40))
        row = node.devices.get()
        beat(node, devices_error="NVML: Driver/library version mismatch", now=after(5))
        row.refresh_from_db()
        assert (row.present, row.usable, row.temperature_c) == (False, False, None)
        assert row.reason == "NVML: Driver/library version mismatch"
        beat(node, card(), now=after(10))
        row.refresh_from_db()
        assert (row.usable, row.reason, row.seen_at) == (True, "", after(10))

    def test_a_card_of_unknown_memory_is_offered_to_nobody_and_says_why(self) -> None:
        """B056"""
        node = a_node(a_pool())
        beat(node, card(memory_mib=None), card("GPU-2", power_mw=None, reason="power: Not Supported"))
        first, second = node.devices.order_by("uuid")
        assert (first.usable, first.memory_mib) == (False, None)
        assert first.reason
        assert (second.usable, second.power_mw, second.reason) == (True, None, "power: Not Supported")

    def test_an_unhealthy_card_is_not_usable(self) -> None:
        node = a_node(a_pool())
        beat(node, card())
        beat(node, card(healthy=False, reason="XID 79"), now=after(5))
        assert (node.devices.get().usable, node.devices.get().reason) == (False, "XID 79")

    @pytest.mark.parametrize("memory_mib", [None, 100])
    def test_a_card_that_reports_less_than_is_taken_keeps_its_shares(self, memory_mib: int | None) -> None:
        node = a_node(a_pool())
        beat(node, card())
        row = node.devices.get()
        services.take_device(row.pk, 8_000, 250)
        beat(node, card(memory_mib=memory_mib), now=after(5))
        row.refresh_from_db()
        assert (row.memory_mib, row.memory_taken_mib, row.memory_over_mib) == (memory_mib, 8_000, 8_000)
        services.give_back_device(row.pk, 8_000, 250)
        beat(node, card(), now=after(10))
        row.refresh_from_db()
        assert (row.memory_mib, row.memory_over_mib, row.usable) == (V100_MIB, 0, True)

    def test_figures_are_kept_as_reported_missing_ones_as_null(self) -> None:
        node = a_node(a_pool())
        beat(node, card("GPU-1"), card("GPU-2"))
        beat(
            node,
            card("GPU-1", memory_used_mib=10, utilisation_percent=99, temperature_c=-3, power_mw=250_000),
            card("GPU-2"),
            now=after(5),
        )
        columns = ("memory_used_mib", "utilisation_percent", "temperature_c", "power_mw", "seen_at")
        assert list(Device.objects.order_by("uuid").values_list(*columns)) == [
            (10, 99, -3, 250_000, after(5)),
            (None, None, None, None, after(5)),
        ]

    def test_a_card_moves_with_its_row_when_nothing_is_booked_on_it(self) -> None:
        pool = a_pool()
        old, new = a_node(pool, "old"), a_node(pool, "new")
        beat(old, card())
        row = Device.objects.get()
        beat(old, now=after(5))
        beat(new, card(), now=after(6))
        row.refresh_from_db()
        assert (row.node, row.usable) == (new, True)

    def test_a_card_moves_from_a_machine_that_is_lost_or_removed(self) -> None:
        pool = a_pool()
        lost = a_node(pool, "lost", liveness=Liveness.LOST)
        removed = a_node(pool, "removed", removed_at=T0)
        a_device(lost, "GPU-1")
        a_device(removed, "GPU-2")
        new = a_node(pool, "new")
        beat(new, card("GPU-1"), card("GPU-2"))
        assert set(Device.objects.values_list("node_id", flat=True)) == {new.pk}

    def test_a_card_with_work_on_it_stays_where_it_was(self) -> None:
        pool = a_pool()
        old, new = a_node(pool, "old", liveness=Liveness.LOST), a_node(pool, "new")
        a_device(old, "GPU-1", taken_milli=125, memory_taken_mib=100)
        beat(new, card())
        assert Device.objects.get().node == old
        assert AuditEvent.objects.get().action == "device.claimed_twice"

    def test_a_card_that_two_living_nodes_claim_stays_with_the_first(self) -> None:
        pool = a_pool()
        first, second = a_node(pool, "first"), a_node(pool, "second")
        for seconds in range(0, 30, 5):
            beat(first, card(), now=after(seconds))
            beat(second, card(), card("GPU-2"), now=after(seconds))
        assert list(Device.objects.order_by("uuid").values_list("uuid", "node__name")) == [
            ("GPU-1", "first"),
            ("GPU-2", "second"),
        ]
        assert AuditEvent.objects.count() == 1

    def test_the_same_card_named_twice_is_one(self) -> None:
        node = a_node(a_pool())
        beat(node, card(), card())
        assert Node.objects.get().devices.count() == 1
