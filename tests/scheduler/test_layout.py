"""Gangs that want one node, many nodes, or nodes with labels."""

from dataclasses import replace

import pytest

from scheduler.decide import decide
from scheduler.feasibility import impossible
from scheduler.model import Node, Plan, Request, Strategy
from tests.scheduler.builders import a_job, a_node, a_pool, a_snapshot, reasons_of


def nodes_of(plan: Plan) -> list[str]:
    return [task.node_id for placement in plan.placements for task in placement.tasks]


def labelled(node: Node, *labels: str) -> Node:
    return replace(node, labels=frozenset(labels))


def a_gang(gpus: int, tasks: int, **layout: bool | frozenset[str]) -> Request:
    return replace(a_job(gpus=gpus, tasks=tasks), **layout)  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", Strategy)
def test_a_same_node_gang_is_on_one_node_or_waits(strategy: Strategy) -> None:
    nodes = [a_node("n1", gpus=3), a_node("n2", gpus=4), a_node("n3", gpus=3)]
    pools = [a_pool(strategy=strategy)]
    assert nodes_of(decide(a_snapshot(nodes, [a_gang(2, 2, same_node=True)], pools=pools))) == ["n2", "n2"]
    plan = decide(a_snapshot(nodes[:1], [a_gang(1, 4, same_node=True)], pools=pools))
    assert nodes_of(plan) == []


@pytest.mark.parametrize("strategy", Strategy)
def test_a_spread_gang_has_each_task_on_a_node_of_its_own(strategy: Strategy) -> None:
    nodes = [a_node(f"n{number}", gpus=8) for number in (1, 2, 3)]
    pools = [a_pool(strategy=strategy)]
    plan = decide(a_snapshot(nodes, [a_gang(1, 3, spread=True)], pools=pools))
    assert sorted(nodes_of(plan)) == ["n1", "n2", "n3"]
    plan = decide(a_snapshot([*nodes[:2], replace(nodes[2], schedulable=False)], [a_gang(1, 3, spread=True)]))
    assert nodes_of(plan) == []
    assert set(reasons_of(plan, "j1")) == {"node_unavailable"}


def test_work_goes_only_to_nodes_with_all_its_labels() -> None:
    nodes = [a_node("n1", gpus=8), labelled(a_node("n2", gpus=8), "disk=fast", "net=ib")]
    for labels in ({"disk=fast"}, {"disk=fast", "net=ib"}):
        assert nodes_of(decide(a_snapshot(nodes, [a_gang(1, 1, node_labels=frozenset(labels))]))) == ["n2"]
    busy = [nodes[0], labelled(a_node("n2", gpus=8, free_cpu=0), "disk=fast")]
    plan = decide(a_snapshot(busy, [a_gang(1, 1, node_labels=frozenset({"disk=fast"}))]))
    assert nodes_of(plan) == []
    assert reasons_of(plan, "j1")


def test_equal_needs_with_other_demands_are_told_apart() -> None:
    nodes = [a_node("n1", gpus=1), labelled(a_node("n2", gpus=1), "disk=fast")]
    jobs = [
        replace(a_job("fast", 1, at=2), node_labels=frozenset({"disk=fast"})),
        replace(a_job("ssd", 1, at=1), node_labels=frozenset({"disk=ssd"})),
        a_job("any", 1, at=3),
    ]
    plan = decide(a_snapshot(nodes, jobs))
    assert [(one.request_id, one.tasks[0].node_id) for one in plan.placements] == [("fast", "n2"), ("any", "n1")]


@pytest.mark.parametrize(
    ("job", "field", "code", "would_pass"),
    [
        pytest.param(a_gang(2, 5, same_node=True), "tasks", "exceeds_node", 4, id="more than the largest node"),
        pytest.param(a_gang(1, 3, spread=True), "tasks", "exceeds_pool", 2, id="more tasks than nodes"),
        pytest.param(
            a_gang(1, 1, node_labels=frozenset({"disk=ssd"})), "node_labels", "unknown_label", None, id="no such label"
        ),
        pytest.param(
            a_gang(8, 2, node_labels=frozenset({"disk=fast"})), "tasks", "exceeds_pool", 1, id="one such node only"
        ),
    ],
)
def test_what_the_nodes_can_never_give_is_refused_b015(
    job: Request, field: str, code: str, would_pass: int | None
) -> None:
    nodes = [a_node("n1", gpus=8), labelled(a_node("n2", gpus=8), "disk=fast")]
    refusals = impossible(job, a_snapshot(nodes))
    assert [(one.field, one.code.value, one.would_pass) for one in refusals] == [(field, code, would_pass)]


def test_a_waiting_same_node_gang_is_told_what_one_node_has() -> None:
    full = [a_node("n1", gpus=4, free_cpu=3_000), a_node("n2", gpus=4, free_cpu=2_000)]
    plan = decide(a_snapshot(full, [a_gang(1, 4, same_node=True)]))
    assert reasons_of(plan, "j1") == {"fragmented": {"quantity": "tasks", "needed": 4, "largest_free": 3}}
    assert "4 tasks at once on one node" in plan.waiting[0].reasons[0].message
