"""What is refused at submit, and what would have passed (B015)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.decide import decide
from scheduler.feasibility import Refusal, RefusalCode, impossible
from scheduler.model import Kind, Node, Request
from tests.scheduler.builders import T4_MIB, V100_MIB, a_device, a_job, a_node, a_pool, a_scope, a_snapshot

NODES = (a_node("n1", gpus=8), a_node("n2", gpus=4), a_node("n3", cpu=96_000, memory=786_432))
SHRINK_CODES = {RefusalCode.EXCEEDS_NODE, RefusalCode.EXCEEDS_QUOTA}
POOLS = (a_pool(), a_pool("uncut", slices=0), a_pool("empty", kinds=[Kind.JOB]))
UNCUT_NODES = (a_node("u1", gpus=8, pool="uncut"),)


def refusals(request: Request, **quotas: Any) -> tuple[Refusal, ...]:
    scopes = [a_scope("s", **quotas)] if quotas else []
    return impossible(request, a_snapshot((*NODES, *UNCUT_NODES), scopes=scopes, pools=POOLS))


def short(found: tuple[Refusal, ...]) -> list[tuple[str, str, int | str, int | None]]:
    return [(one.field, one.code.value, one.asked, one.would_pass) for one in found]


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        # 101 % of a card, and one more and less around each limit
        ({"gpus": 1, "mib": 32_768}, []),
        ({"gpus": 1, "mib": 32_769}, [("resources.gpu_memory_mib", "exceeds_card", 32_769, 32_768)]),
        ({"gpus": 1, "mib": V100_MIB, "pool": "uncut"}, []),
        (
            {"gpus": 1, "mib": V100_MIB + 1, "pool": "uncut"},
            [("resources.gpu_memory_mib", "exceeds_card", V100_MIB + 1, V100_MIB)],
        ),
        ({"gpus": 1, "mib": 1}, []),
        ({"gpus": 1, "mib": 0}, [("resources.gpu_memory_mib", "too_small", 0, 1)]),
        ({"gpus": 1, "mib": -1}, [("resources.gpu_memory_mib", "too_small", -1, 1)]),
        ({"gpus": 1, "slices": 8}, []),
        ({"gpus": 1, "slices": 9}, [("resources.gpu_slices", "exceeds_card", 9, 8)]),
        ({"gpus": 1, "slices": 0}, [("resources.gpu_slices", "too_small", 0, 1)]),
        ({"gpus": 1, "slices": 1, "pool": "uncut"}, [("resources.gpu_slices", "pool_not_cut", 1, None)]),
        ({"gpus": 1, "milli": 1000}, []),
        ({"gpus": 1, "milli": 1001}, [("resources.gpu_compute_milli", "exceeds_card", 1001, 1000)]),
        (
            {"gpus": 1, "mib": 99_999, "milli": 2_000},
            [
                ("resources.gpu_memory_mib", "exceeds_card", 99_999, 32_768),
                ("resources.gpu_compute_milli", "exceeds_card", 2_000, 1_000),
            ],
        ),
        # more cards than the largest node, no card, another card
        ({"gpus": 8}, []),
        ({"gpus": 9}, [("resources.gpus", "exceeds_node", 9, 8)]),
        ({"gpus": 9, "slices": 1}, [("resources.gpus", "exceeds_node", 9, 8)]),
        ({"gpus": -1}, [("resources.gpus", "too_small", -1, 0)]),
        ({"gpus": 0, "mib": 4_096}, [("resources.gpus", "gpus_required", 0, 1)]),
        ({"gpus": 0, "slices": 1}, [("resources.gpus", "gpus_required", 0, 1)]),
        ({"gpus": 1, "model": "V100-32GB"}, []),
        ({"gpus": 1, "model": "V100-16GB"}, [("resources.gpu_model", "unknown_model", "V100-16GB", None)]),
        ({"gpus": 1, "model": ""}, [("resources.gpu_model", "unknown_model", "", None)]),
        # CPU and memory, alone and beside the cards
        ({"cpu": 96_000}, []),
        ({"cpu": 96_001}, [("resources.cpu_milli", "exceeds_node", 96_001, 96_000)]),
        ({"memory": 786_433}, [("resources.memory_mib", "exceeds_node", 786_433, 786_432)]),
        ({"cpu": 0}, [("resources.cpu_milli", "too_small", 0, 1)]),
        ({"memory": 0}, [("resources.memory_mib", "too_small", 0, 1)]),
        (
            {"gpus": 8, "cpu": 48_001},
            [("resources.gpus", "exceeds_node", 8, 0), ("resources.cpu_milli", "exceeds_node", 48_001, 48_000)],
        ),
        (
            {"gpus": 9, "cpu": 96_001},
            [("resources.gpus", "exceeds_node", 9, 8), ("resources.cpu_milli", "exceeds_node", 96_001, 96_000)],
        ),
        ({"gpus": 9, "cpu": 50_000}, [("resources.gpus", "exceeds_node", 9, 0)]),
        # gangs
        ({"gpus": 4, "tasks": 3}, []),
        ({"gpus": 4, "tasks": 4}, [("tasks", "exceeds_pool", 4, 3)]),
        ({"gpus": 1, "slices": 8, "tasks": 13}, [("tasks", "exceeds_pool", 13, 12)]),
        ({"tasks": 0}, [("tasks", "too_small", 0, 1)]),
        # pools
        ({"pool": "nowhere"}, [("pool", "unknown_pool", "nowhere", None)]),
        ({"pool": "empty", "kind": Kind.ENVIRONMENT}, [("kind", "kind_not_allowed", "environment", None)]),
        ({"pool": "empty", "gpus": 64, "model": "H100"}, []),
        ({"pool": "empty", "gpus": 1, "mib": 0}, [("resources.gpu_memory_mib", "too_small", 0, 1)]),
    ],
)
def test_what_can_never_start_is_refused_with_the_number_that_would_pass_b015(
    asked: dict[str, Any], refused: list[tuple[str, str, int | str, int | None]]
) -> None:
    assert short(refusals(a_job(**asked))) == refused


def test_the_models_that_exist_are_listed_b015() -> None:
    nodes = [a_node("n1", gpus=1), a_node("n2", gpus=1, model="T4", memory_mib=T4_MIB)]
    (refusal,) = impossible(a_job(gpus=1, model="H100"), a_snapshot(nodes))
    assert refusal.choices == ("T4", "V100-32GB")
    assert refusal.message == "pool pool has no card H100; it has T4, V100-32GB"


@pytest.mark.parametrize(
    ("asked", "limits", "refused"),
    [
        ({"gpus": 6}, {"gpu_milli": 6_000}, []),
        ({"gpus": 7}, {"gpu_milli": 6_000}, [("resources.gpus", "exceeds_quota", 7, 6)]),
        ({"gpus": 1}, {"gpu_milli": 0}, [("resources.gpus", "exceeds_quota", 1, 0)]),
        ({"gpus": 2, "tasks": 3}, {"gpu_milli": 5_000}, [("resources.gpus", "exceeds_quota", 2, 1)]),
        ({"gpus": 4, "slices": 2}, {"gpu_milli": 600}, [("resources.gpus", "exceeds_quota", 4, 2)]),
        ({"gpus": 1, "slices": 4}, {"gpu_milli": 375}, [("resources.gpu_slices", "exceeds_quota", 4, 3)]),
        ({"gpus": 1, "mib": 9_000}, {"gpu_milli": 250}, [("resources.gpu_memory_mib", "exceeds_quota", 9_000, 8_192)]),
        ({"gpus": 1, "slices": 1}, {"gpu_milli": 124}, [("resources.gpu_slices", "exceeds_quota", 1, 0)]),
        ({"cpu": 40_001}, {"cpu_milli": 40_000}, [("resources.cpu_milli", "exceeds_quota", 40_001, 40_000)]),
        ({"cpu": 9, "tasks": 2}, {"cpu_milli": 16}, [("resources.cpu_milli", "exceeds_quota", 9, 8)]),
        ({"memory": 1_025}, {"memory_mib": 1_024}, [("resources.memory_mib", "exceeds_quota", 1_025, 1_024)]),
        ({}, {"running_jobs": 0}, [("kind", "exceeds_quota", 1, 0)]),
        ({"kind": Kind.ENVIRONMENT}, {"environments": 0}, [("kind", "exceeds_quota", 1, 0)]),
        ({}, {"environments": 0, "gpu_milli": 0}, []),
    ],
)
def test_more_than_a_limit_is_refused_in_the_unit_of_its_field_b015(
    asked: dict[str, Any], limits: dict[str, Any], refused: list[tuple[str, str, int | str, int | None]]
) -> None:
    assert short(refusals(a_job(**asked), **limits)) == refused


def test_a_limit_in_cards_is_also_said_in_what_was_asked_for() -> None:
    (refusal,) = refusals(a_job(gpus=1, slices=4), gpu_milli=375)
    assert refusal.message == (
        "the limit of group vision over all pools is 0.375 cards; asked for: 0.5 cards; would pass: 3 slices"
    )
    (refusal,) = refusals(a_job(gpus=2, tasks=3), gpu_milli=5_000)
    assert refusal.message.endswith("is 5 cards; asked for: 6 cards; would pass: 1 card a task")


def test_use_is_no_ground_for_refusal() -> None:
    full = a_node("n1", devices=[a_device("a", is_whole_taken=True)], free_cpu=0, free_memory=0)
    scope = a_scope(gpu_milli=(1_000, 1_000))
    assert impossible(a_job(gpus=1), a_snapshot([full], scopes=[scope])) == ()


def test_hardware_that_is_out_of_service_still_counts() -> None:
    nodes = [a_node("n1", devices=[a_device("a", usable=False)], schedulable=False)]
    assert impossible(a_job(gpus=1), a_snapshot(nodes)) == ()
    assert short(impossible(a_job(gpus=2), a_snapshot(nodes))) == [("resources.gpus", "exceeds_node", 2, 1)]


def test_a_card_that_has_not_told_its_memory_refuses_no_size() -> None:
    nodes = [a_node("n1", devices=[a_device("a", memory_mib=0, usable=False)])]
    assert impossible(a_job(gpus=1, slices=1), a_snapshot(nodes)) == ()
    assert short(impossible(a_job(cpu=99_000), a_snapshot(nodes))) == [
        ("resources.cpu_milli", "exceeds_node", 99_000, 48_000)
    ]


def test_a_pool_whose_nodes_have_no_card_gives_none() -> None:
    assert short(impossible(a_job(gpus=1), a_snapshot([a_node()]))) == [("resources.gpus", "exceeds_node", 1, 0)]


def test_every_scope_that_forbids_is_named_b015() -> None:
    scopes = [
        a_scope("group-all", gpu_milli=6_000),
        a_scope("group-pool", pool="pool", gpu_milli=7_000),
        a_scope("user-pool", user="ada", pool="pool", gpu_milli=2_000),
        a_scope("bo", user="bo", gpu_milli=0),
    ]
    found = impossible(a_job(gpus=9), a_snapshot(NODES, scopes=scopes))
    assert [(one.scope.value, one.scope_id, one.would_pass) for one in found] == [
        ("pool", "pool", 8),
        ("group", "group-pool", 7),
        ("group", "group-all", 6),
        ("user", "user-pool", 2),
    ]
    assert found[3].message == "the limit of user ada of group vision in pool pool is 2 cards; asked for: 9 cards"


@given(
    nodes=st.lists(
        st.builds(
            lambda name, gpus, cpu, card: a_node(f"n{name}", gpus=gpus, cpu=cpu, model=card[0], memory_mib=card[1]),
            st.integers(),
            st.integers(0, 3),
            st.sampled_from([2_000, 8_000]),
            st.sampled_from([("V100-32GB", V100_MIB), ("T4", T4_MIB)]),
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda node: node.id,
    ),
    asked=st.fixed_dictionaries(
        {"gpus": st.integers(0, 4), "cpu": st.sampled_from([1_000, 4_000, 9_000]), "tasks": st.integers(1, 3)},
        optional={"mib": st.sampled_from([4_096, 16_384, 16_385, 40_000]), "model": st.sampled_from(["T4", "A100"])},
    ),
    limit=st.none() | st.integers(0, 4_000),
)
@settings(max_examples=40, deadline=None)
def test_a_request_is_refused_exactly_when_it_does_not_start_on_the_idle_cluster(
    nodes: list[Node], asked: dict[str, Any], limit: int | None
) -> None:
    limits: dict[str, Any] = {} if limit is None else {"gpu_milli": limit}
    job = a_job(**asked)
    snapshot = a_snapshot(nodes, [job], scopes=[a_scope("s", **limits)])
    found = impossible(job, snapshot)
    assert bool(decide(snapshot).placements) == (not found)
    if [one.field for one in found] == ["tasks"] and found[0].would_pass:
        assert impossible(replace(job, tasks=found[0].would_pass), snapshot) == ()
        assert impossible(replace(job, tasks=found[0].would_pass + 1), snapshot) != ()
    for one in found:
        name = one.field.removeprefix("resources.")
        if len(found) == job.tasks == 1 and one.code in SHRINK_CODES and one.would_pass:
            changed: dict[str, Any] = {name: one.would_pass}
            assert impossible(replace(job, resources=replace(job.resources, **changed)), snapshot) == ()
