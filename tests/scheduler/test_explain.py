"""Why a request waits: all reasons, with numbers and words."""

from typing import Any

import pytest

from scheduler.decide import decide
from scheduler.model import Kind, Node, PendingReason, Request, Snapshot
from tests.scheduler.builders import a_device, a_job, a_node, a_pool, a_scope, a_snapshot


def reasons(snapshot: Snapshot, request_id: str = "j1") -> list[PendingReason]:
    plan = decide(snapshot)
    return list(next(one for one in plan.waiting if one.request_id == request_id).reasons)


def said(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(reason.code.value, reason.message) for reason in reasons(snapshot)]


def a_busy_node(name: str, free: int, gpus: int = 8, **node: Any) -> Node:
    """A node with so many free cards, the others taken whole."""
    cards = [a_device(f"{name}g{place}", is_whole_taken=place >= free) for place in range(gpus)]
    return a_node(name, devices=cards, **node)


@pytest.mark.parametrize(
    ("nodes", "job", "expected"),
    [
        pytest.param(
            [a_busy_node("n1", free=3)],
            a_job(gpus=4),
            [("pool_full", "needs 4 cards, free in pool pool: 3 cards")],
            id="too few cards in all",
        ),
        pytest.param(
            [a_busy_node("n1", free=3), a_busy_node("n2", free=2)],
            a_job(gpus=4),
            [("fragmented", "needs 4 cards on one node, largest free is 3 cards")],
            id="enough cards but on two nodes",
        ),
        pytest.param(
            [a_node(devices=[a_device("a", used_slices=5), a_device("b", used_slices=6)])],
            a_job(gpus=1, slices=4),
            [("fragmented", "needs 4 slices on one card, largest free is 3 slices")],
            id="enough slices but on two cards",
        ),
        pytest.param(
            [a_node(devices=[a_device("a", used_slices=7), a_device("b", used_slices=8)])],
            a_job(gpus=1, slices=4),
            [("pool_full", "needs 4 slices, free in pool pool: 1 slice")],
            id="too few slices in all",
        ),
        pytest.param(
            [a_node(devices=[a_device("a", used_slices=7), a_device("b", used_slices=8)])],
            a_job(gpus=2, slices=1),
            [("pool_full", "needs 2 slices, free in pool pool: 1 slice")],
            id="too few slices for two cards",
        ),
        pytest.param(
            [a_node(devices=[a_device("a", used_slices=6), a_device("b", used_slices=8)])],
            a_job(gpus=2, slices=1),
            [("fragmented", "needs 2 cards on one node, largest free is 1 card")],
            id="enough slices, all on one card",
        ),
        pytest.param(
            [a_busy_node("n1", free=2), a_busy_node("n2", free=4), a_busy_node("n3", free=2)],
            a_job(gpus=4, tasks=2),
            [("fragmented", "needs room for 2 tasks at once, there is room for 1")],
            id="room for a part of the gang",
        ),
        pytest.param(
            [a_node("n1", gpus=1, free_cpu=2_000), a_node("n2", free_cpu=16_000)],
            a_job(gpus=1, cpu=4_000),
            [("fragmented", "needs 4 CPU cores on one node with free cards, largest free is 2 CPU cores")],
            id="a free card, but no CPU beside it",
        ),
        pytest.param(
            [a_node("n1", gpus=1, free_cpu=500, free_memory=1_000)],
            a_job(gpus=1, cpu=1_000, memory=2_048),
            [
                ("pool_full", "needs 1 CPU core, free in pool pool: 0.5 CPU cores"),
                ("pool_full", "needs 2 GiB of memory, free in pool pool: 1000 MiB of memory"),
            ],
            id="CPU and memory, both named",
        ),
        pytest.param(
            [a_busy_node("n1", free=0, free_cpu=0)],
            a_job(gpus=1),
            [
                ("pool_full", "needs 1 card, free in pool pool: 0 cards"),
                ("pool_full", "needs 1 CPU core, free in pool pool: 0 CPU cores"),
            ],
            id="nothing left at all",
        ),
        pytest.param(
            [a_node("n1", free_cpu=4_000, free_memory=512), a_node("n2", free_cpu=500, free_memory=8_192)],
            a_job(cpu=2_000, memory=4_096),
            [("fragmented", "enough cards, CPU and memory are free, but not together on one node")],
            id="CPU here, memory there",
        ),
        pytest.param(
            [a_node("n1", gpus=1, schedulable=False), a_busy_node("n2", free=0)],
            a_job(gpus=1),
            [
                ("pool_full", "needs 1 card, free in pool pool: 0 cards"),
                ("node_unavailable", "1 node with room out of service or in part: n1"),
            ],
            id="would fit on a cordoned node",
        ),
        pytest.param(
            [a_node("n1", devices=[a_device("a", usable=False), a_device("b", is_whole_taken=True)])],
            a_job(gpus=1),
            [
                ("pool_full", "needs 1 card, free in pool pool: 0 cards"),
                ("node_unavailable", "1 node with room out of service or in part: n1"),
            ],
            id="would fit on a broken card",
        ),
        pytest.param(
            [a_node(f"n{number}", gpus=1, schedulable=False) for number in range(5)],
            a_job(gpus=1),
            [("node_unavailable", "5 nodes with room out of service or in part: n0, n1, n2 and 2 more")],
            id="no node in service",
        ),
        pytest.param(
            [Node("n1", "pool", 48_000, 393_216, 0, 0, (a_device("a", is_whole_taken=True),), schedulable=False)],
            a_job(gpus=1),
            [("node_unavailable", "too many nodes of pool pool take no work now")],
            id="no node in service and those are busy",
        ),
        pytest.param(
            [], a_job(gpus=1), [("node_unavailable", "waits until pool pool has a node")], id="a pool without nodes"
        ),
        pytest.param(
            [a_node("n1", devices=[a_device("a", memory_mib=0, used_slices=0, usable=False)])],
            a_job(gpus=1, slices=1),
            [("node_unavailable", "waits until pool pool knows the memory of all its cards")],
            id="a card that has not told its memory yet",
        ),
        pytest.param(
            [a_node("n1", gpus=4)],
            a_job(gpus=8),
            [("no_such_device", "the largest node of pool pool gives 4 cards; asked for: 8 cards")],
            id="no node has so many cards",
        ),
        pytest.param(
            [a_node("n1", gpus=4)],
            a_job(gpus=1, model="H100"),
            [("no_such_device", "pool pool has no card H100; it has V100-32GB")],
            id="no such card",
        ),
    ],
)
def test_a_waiting_request_says_what_it_lacks(nodes: list[Node], job: Request, expected: list[tuple[str, str]]) -> None:
    assert said(a_snapshot(nodes, [job])) == expected


def test_in_an_uncut_pool_memory_and_compute_are_counted_by_themselves() -> None:
    pools = [a_pool(slices=0)]
    jobs = [
        a_job("j0", 1, mib=20_000, milli=100, at=1),
        a_job("j1", 1, mib=20_000, milli=100, at=2),
        a_job("j2", 1, mib=1_000, milli=950, at=3),
    ]
    full = {"quantity": "gpu_memory_mib", "needed": 20_000, "free": 12_510}
    assert [dict(reason.numbers) for reason in reasons(a_snapshot([a_node(gpus=1)], jobs, pools=pools))] == [full]
    compute = reasons(a_snapshot([a_node(gpus=1)], jobs, pools=pools), "j2")[0]
    assert compute.message == (
        "needs 950 thousandths of a card's compute, free in pool pool: 900 thousandths of a card's compute"
    )


def test_all_reasons_are_given_at_once() -> None:
    scopes = [
        a_scope("g", gpu_milli=(6_000, 6_000), pool="pool"),
        a_scope("u", user="ada", gpu_milli=(2_000, 1_500), running_jobs=(1, 1)),
    ]
    snapshot = a_snapshot([a_busy_node("n1", free=0)], [a_job(gpus=1, held=True)], scopes=scopes)
    assert said(snapshot) == [
        ("held", "held; it waits until it is released"),
        ("quota_group", "group vision in pool pool uses 6 cards of 6 cards, this needs 1 card"),
        ("quota_user", "user ada of group vision over all pools uses 1.5 cards of 2 cards, this needs 1 card"),
        (
            "quota_user",
            "user ada of group vision over all pools uses 1 running job of 1 running job, this needs 1 running job",
        ),
        ("pool_full", "needs 1 card, free in pool pool: 0 cards"),
    ]


def test_reasons_tell_how_things_stand_after_the_plan() -> None:
    jobs = [a_job("j1", 4, at=1), a_job("j2", 2, at=2)]
    assert said(a_snapshot([a_busy_node("n1", free=3)], jobs)) == [
        ("pool_full", "needs 4 cards, free in pool pool: 1 card")
    ]


def test_a_request_held_up_by_its_quota_alone_says_nothing_of_the_pool() -> None:
    snapshot = a_snapshot([a_node(gpus=8)], [a_job(gpus=1, slices=1)], scopes=[a_scope("g", gpu_milli=100)])
    assert said(snapshot) == [
        ("quota_group", "group vision over all pools uses 0 cards of 0.1 cards, this needs 0.125 cards")
    ]


def test_a_kind_that_its_pool_takes_no_more_waits_for_the_pool_to_change() -> None:
    snapshot = a_snapshot([a_node(gpus=8)], [a_job(kind=Kind.ENVIRONMENT)], pools=[a_pool(kinds=[Kind.JOB])])
    assert said(snapshot) == [("node_unavailable", "pool pool takes no environment; it takes job")]


def test_requests_of_equal_needs_and_owner_share_their_reasons() -> None:
    plan = decide(a_snapshot([a_busy_node("n1", free=0)], [a_job(str(number), 1) for number in range(3)]))
    assert len({id(one.reasons) for one in plan.waiting}) == 1
