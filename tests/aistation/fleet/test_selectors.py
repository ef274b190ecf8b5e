"""What pages, API and scheduler read of the fleet; all from the same facts."""

from typing import Any

import pytest

from aistation.core.errors import NotFoundError
from aistation.fleet import selectors
from aistation.fleet.models import Duty, Liveness
from aistation.tenancy.policy import Actor
from scheduler.model import Device, Kind, Node, Pool, Strategy
from tests.aistation.fleet.builders import V100_MIB, a_device, a_node, a_platform_admin, a_pool

pytestmark = pytest.mark.django_db
ADMIN = a_platform_admin()


def test_the_scheduler_gets_names_and_what_is_free(django_assert_num_queries: Any) -> None:
    pool = a_pool(slices_per_gpu=8, strategy="spread")
    node = a_node(pool, cpu_taken_milli=8_000, memory_taken_mib=3_216)
    a_device(node, "GPU-1", taken_milli=125, memory_taken_mib=3_999)
    a_device(node, "GPU-2", memory_mib=None)
    a_device(node, "GPU-3", healthy=False)
    a_device(node, "GPU-4", present=False)
    with django_assert_num_queries(3):
        pools, nodes = selectors.scheduler_pools(), selectors.scheduler_nodes()
    assert pools == (Pool("default", frozenset({Kind.JOB, Kind.ENVIRONMENT}), 8, 512, Strategy.SPREAD),)
    model = "Tesla V100-SXM2-32GB"
    assert nodes == (
        Node(
            id="node-1",
            pool_id="default",
            cpu_milli=48_000,
            memory_mib=393_216,
            free_cpu_milli=40_000,
            free_memory_mib=390_000,
            devices=(
                Device("GPU-1", model, V100_MIB, V100_MIB - 3_999, 875),
                Device("GPU-2", model, 0, 0, 1000, usable=False),
                Device("GPU-3", model, V100_MIB, V100_MIB, 1000, usable=False),
                Device("GPU-4", model, V100_MIB, V100_MIB, 1000, usable=False),
            ),
        ),
    )


def test_what_is_taken_beyond_a_shrunken_capacity_is_never_negative_room() -> None:
    node = a_node(a_pool(), cpu_milli=10, cpu_taken_milli=20, cpu_over_milli=20)
    a_device(node, "GPU-1", memory_mib=10, memory_taken_mib=20, memory_over_mib=20)
    (fact,) = selectors.scheduler_nodes()
    assert (fact.free_cpu_milli, fact.devices[0].free_memory_mib) == (0, 0)


@pytest.mark.parametrize(
    "columns",
    [
        {"liveness": Liveness.SUSPECT},
        {"liveness": Liveness.LOST},
        {"duty": Duty.CORDONED},
        {"duty": Duty.DRAINING},
        {"duty": Duty.MAINTENANCE},
        {"runtime_error": "Cannot connect to the Docker daemon"},
        {"disk_used_percent": 90},
    ],
)
def test_a_node_that_cannot_take_work_says_why_and_counts_as_installed_only(columns: dict[str, Any]) -> None:
    """B010"""
    pool = a_pool(slices_per_gpu=8)
    node = a_node(pool, devices=2, **columns)
    assert selectors.unavailable_because(node)
    (fact,) = selectors.scheduler_nodes()
    assert not fact.schedulable
    (capacity,) = selectors.list_capacity(ADMIN)
    assert (capacity.nodes, capacity.installed_cards) == (1, 2)
    assert (capacity.usable_nodes, capacity.usable_cards, capacity.free_cards, capacity.free_slices) == (0, 0, 0, 0)
    assert (capacity.free_cpu_milli, capacity.free_memory_mib) == (0, 0)


def test_a_full_disk_is_one_at_the_limit_and_an_unknown_one_is_not_full() -> None:
    pool = a_pool()
    assert not selectors.unavailable_because(a_node(pool, "node-1", disk_used_percent=89))
    assert not selectors.unavailable_because(a_node(pool, "node-2", disk_used_percent=None))


def test_free_capacity_leaves_out_broken_cards_and_counts_slices() -> None:
    """B010"""
    node = a_node(a_pool(slices_per_gpu=8), cpu_taken_milli=8_000)
    a_device(node, "GPU-1")
    a_device(node, "GPU-2", taken_milli=250, memory_taken_mib=7_998)
    a_device(node, "GPU-3", taken_milli=1000, memory_taken_mib=V100_MIB)
    a_device(node, "GPU-4", healthy=False)
    a_node(a_pool("uncut"), "node-2", devices=1)
    cut, uncut = selectors.list_capacity(ADMIN)
    assert (cut.installed_cards, cut.usable_cards, cut.taken_cards, cut.free_cards) == (4, 3, 2, 1)
    assert (cut.usable_slices, cut.free_slices) == (24, 8 + 6)
    assert (cut.usable_cpu_milli, cut.free_cpu_milli) == (48_000, 40_000)
    assert (uncut.free_cards, uncut.usable_slices, uncut.free_slices) == (1, 0, 0)


@pytest.mark.parametrize(
    ("slices", "taken", "free"), [(8, 0, 8), (8, 7, 1), (3, 0, 3), (3, 1, 2), (3, 2, 1), (7, 6, 1), (7, 7, 0)]
)
def test_all_slices_of_a_card_can_be_given_out_one_by_one(slices: int, taken: int, free: int) -> None:
    pool = Pool("p", frozenset(Kind), slices)
    size = (V100_MIB - 512) // slices
    card = Device("GPU-1", "V100", V100_MIB, V100_MIB - taken * size, 1000 - taken * (1000 // slices))
    assert selectors.free_slices(pool, card) == free


def test_lists_cost_the_same_for_one_and_for_many(django_assert_num_queries: Any) -> None:
    pool = a_pool()
    for index in range(3):
        a_node(pool, f"node-{index}", devices=2)
    with django_assert_num_queries(2):
        assert [len(node.devices.all()) for node in selectors.list_nodes(ADMIN)] == [2, 2, 2]
    with django_assert_num_queries(1):
        assert {device.node.pool.name for device in selectors.list_devices(ADMIN)} == {"default"}


def test_a_node_is_accessed_by_name_or_missing() -> None:
    a_node(a_pool())
    member = Actor(2, "ann")
    assert selectors.access_node(member, "node-1").name == "node-1"
    with pytest.raises(NotFoundError):
        selectors.access_node(member, "node-2")
    with pytest.raises(NotFoundError):
        selectors.access_node(Actor(2, "ann", scopes=frozenset()), "node-1")
