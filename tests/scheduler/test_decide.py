"""Named clusters: who starts, and where."""

import random
from dataclasses import replace
from typing import Any

import pytest

from scheduler.decide import decide
from scheduler.model import Kind, Node, Plan, Request, Strategy
from tests.scheduler.builders import (
    SLICE_MIB,
    V100_MIB,
    a_device,
    a_job,
    a_node,
    a_pool,
    a_scope,
    a_snapshot,
    after,
    cards_of,
    node_of,
    reasons_of,
)


def placed(plan: Plan) -> list[str]:
    return [one.request_id for one in plan.placements]


def positions(plan: Plan) -> dict[str, int]:
    return {one.request_id: one.position for one in plan.waiting}


# --- order -----------------------------------------------------------------------------------------


def test_higher_priority_starts_first_then_who_queued_first_then_the_lower_id() -> None:
    jobs = [
        a_job("d", 1, priority=50, at=2),
        a_job("c", 1, priority=50, at=1),
        a_job("b", 1, priority=50, at=1),
        a_job("a", 1, priority=90, at=9),
    ]
    assert placed(decide(a_snapshot([a_node(gpus=4)], jobs))) == ["a", "b", "c", "d"]


def test_the_first_in_line_has_position_one_in_its_pool() -> None:
    jobs = [a_job("x1", 1, at=1), a_job("y1", 1, at=2, pool="other"), a_job("x2", 1, at=3), a_job("x0", 1, priority=51)]
    plan = decide(a_snapshot([a_node(gpus=0)], jobs, pools=[a_pool(), a_pool("other")]))
    assert positions(plan) == {"x0": 1, "x1": 2, "x2": 3, "y1": 1}


def test_a_job_that_does_not_fit_does_not_hold_up_those_behind_it() -> None:
    plan = decide(a_snapshot([a_node(gpus=4)], [a_job("large", 5, at=1), a_job("small", 4, at=2)]))
    assert placed(plan) == ["small"]
    assert positions(plan) == {"large": 1}


def test_held_requests_wait_behind_all_others_and_take_nothing() -> None:
    jobs = [a_job("held", 1, priority=100, held=True), a_job("a", 1), a_job("b", 1)]
    plan = decide(a_snapshot([a_node(gpus=1)], jobs))
    assert placed(plan) == ["a"]
    assert positions(plan) == {"b": 1, "held": 2}
    assert set(reasons_of(plan, "held")) == {"held", "pool_full"}


def test_the_plan_carries_the_snapshots_version() -> None:
    assert decide(a_snapshot()).version == 7


# --- best fit --------------------------------------------------------------------------------------


def test_packing_puts_a_slice_on_the_fullest_card_that_still_has_room() -> None:
    cards = [
        a_device("g1"),
        a_device("g2", used_slices=3),
        a_device("g3", used_slices=7),
        a_device("g4", used_slices=8),
    ]
    nodes = [a_node("n1", devices=cards[:2]), a_node("n2", devices=cards[2:])]
    assert cards_of(decide(a_snapshot(nodes, [a_job(gpus=1, slices=1)])), "j1") == ["g3"]
    assert cards_of(decide(a_snapshot(nodes, [a_job(gpus=1, slices=2)])), "j1") == ["g2"]


def test_a_node_counts_by_its_best_card() -> None:
    nodes = [
        a_node("n1", devices=[a_device("g1"), a_device("g2", used_slices=6)]),
        a_node("n2", devices=[a_device("g3", used_slices=5)]),
    ]
    assert cards_of(decide(a_snapshot(nodes, [a_job(gpus=1, slices=1)])), "j1") == ["g2"]
    assert cards_of(decide(a_snapshot(nodes, [a_job(gpus=2, slices=1)])), "j1") == ["g1", "g2"]


def test_packing_chooses_the_fuller_node_among_equally_full_cards() -> None:
    idle, busy = [a_device("a1"), a_device("a2")], [a_device("b1"), a_device("b2", used_slices=8)]
    nodes = [a_node("n1", devices=idle), a_node("n2", devices=busy)]
    assert cards_of(decide(a_snapshot(nodes, [a_job(gpus=1, slices=1)])), "j1") == ["b1"]


def test_how_full_a_node_is_counts_what_the_plan_itself_put_there() -> None:
    nodes = [a_node("n1", gpus=3), a_node("n2", gpus=2, cpu=8_000)]
    plan = decide(a_snapshot(nodes, [a_job("a", 2, cpu=20_000, at=1), a_job("b", 1, slices=1, at=2)]))
    assert (node_of(plan, "a"), node_of(plan, "b")) == ("n1", "n1")


def test_spreading_puts_a_slice_on_the_emptiest_card() -> None:
    cards = [a_device("g1", used_slices=1), a_device("g2"), a_device("g3", used_slices=7)]
    spread = a_pool(strategy=Strategy.SPREAD)
    plan = decide(a_snapshot([a_node("n1", devices=cards)], [a_job(gpus=1, slices=1)], pools=[spread]))
    assert cards_of(plan, "j1") == ["g2"]


def test_whole_cards_go_to_the_node_with_the_fewest_free_ones_that_suffice() -> None:
    nodes = [a_node("n1", gpus=8), a_node("n2", gpus=4), a_node("n3", gpus=2)]
    assert node_of(decide(a_snapshot(nodes, [a_job(gpus=3)])), "j1") == "n2"
    spread = [a_pool(strategy=Strategy.SPREAD)]
    assert node_of(decide(a_snapshot(nodes, [a_job(gpus=3)], pools=spread)), "j1") == "n1"


@pytest.mark.parametrize("strategy", Strategy)
def test_work_without_gpu_stays_off_nodes_with_cards_while_it_can(strategy: Strategy) -> None:
    nodes = [a_node("gpu", gpus=8, cpu=4_000), a_node("cpu", cpu=16_000)]
    jobs = [a_job(str(number), cpu=4_000, at=number) for number in range(5)]
    plan = decide(a_snapshot(nodes, jobs, pools=[a_pool(strategy=strategy)]))
    assert [node_of(plan, job.id) for job in jobs] == ["cpu", "cpu", "cpu", "cpu", "gpu"]


def test_work_without_gpu_uses_the_node_whose_cards_are_taken_before_one_with_free_cards() -> None:
    nodes = [a_node("n1", gpus=2), a_node("n2", devices=[a_device("a", is_whole_taken=True)])]
    assert node_of(decide(a_snapshot(nodes, [a_job()])), "j1") == "n2"


def test_ties_are_broken_by_id() -> None:
    nodes = [a_node("n3", gpus=2), a_node("n1", gpus=2), a_node("n2", gpus=2)]
    plan = decide(a_snapshot(nodes, [a_job(gpus=1)]))
    assert (node_of(plan, "j1"), cards_of(plan, "j1")) == ("n1", ["n1-gpu0"])


# --- slices and whole cards ------------------------------------------------------------------------


def test_eight_slices_fill_a_card_and_a_ninth_waits() -> None:
    jobs = [a_job(f"j{number}", 1, mib=4096, at=number) for number in range(9)]
    plan = decide(a_snapshot([a_node(gpus=1)], jobs))
    shares = [share for one in plan.placements for task in one.tasks for share in task.shares]
    assert [(share.memory_mib, share.compute_milli, share.whole) for share in shares] == [(SLICE_MIB, 125, False)] * 8
    assert sum(share.memory_mib for share in shares) <= V100_MIB
    assert reasons_of(plan, "j8") == {"pool_full": {"quantity": "gpu_slices", "needed": 1, "free": 0}}


def test_a_tenth_of_a_card_fits_ten_times_b008() -> None:
    jobs = [a_job(f"j{number}", 1, milli=100) for number in range(11)]
    assert len(decide(a_snapshot([a_node(gpus=1)], jobs, pools=[a_pool(slices=0)])).placements) == 10


def test_eighty_shares_of_0_18_fill_sixteen_cards_exactly_b008() -> None:
    nodes = [a_node("n1", gpus=8), a_node("n2", gpus=8)]
    jobs = [a_job(f"j{number:02}", 1, milli=180) for number in range(81)]
    plan = decide(a_snapshot(nodes, jobs, pools=[a_pool(slices=0)]))
    assert len(plan.placements) == 80
    left = after(a_snapshot(nodes, jobs, pools=[a_pool(slices=0)]), plan)
    assert {device.free_milli for node in left.nodes for device in node.devices} == {100}


def test_three_thirds_fit_on_a_card_b008() -> None:
    thirds = [a_job(f"j{number}", 1, slices=1) for number in range(4)]
    assert len(decide(a_snapshot([a_node(gpus=1)], thirds, pools=[a_pool(slices=3)])).placements) == 3
    milli = [a_job(f"j{number}", 1, milli=333) for number in range(4)]
    assert len(decide(a_snapshot([a_node(gpus=1)], milli, pools=[a_pool(slices=0)])).placements) == 3


def test_compute_runs_out_as_memory_does() -> None:
    jobs = [a_job(f"j{number}", 1, mib=1, milli=600) for number in range(2)]
    assert len(decide(a_snapshot([a_node(gpus=1)], jobs, pools=[a_pool(slices=0)])).placements) == 1
    memory = a_job("j00", 1, mib=V100_MIB, milli=1)  # leaves compute without memory on the other card
    plan = decide(a_snapshot([a_node(gpus=2)], [memory, *jobs], pools=[a_pool(slices=0)]))
    assert placed(plan) == ["j0", "j00"]


def test_two_shares_of_one_request_are_on_two_cards_b008() -> None:
    plan = decide(a_snapshot([a_node(gpus=2)], [a_job(gpus=2, slices=1)]))
    assert cards_of(plan, "j1") == ["n1-gpu0", "n1-gpu1"]
    assert placed(decide(a_snapshot([a_node(gpus=1)], [a_job(gpus=2, slices=1)]))) == []


def test_taking_and_freeing_shares_leaves_no_residue_b008() -> None:
    rng = random.Random(8)
    pool = a_pool(slices=0)
    empty = a_snapshot([a_node("n1", gpus=2), a_node("n2", gpus=2)], pools=[pool])
    snapshot, running = empty, list[tuple[Request, Plan]]()
    for number in range(400):
        job = a_job(f"j{number}", rng.choice((1, 2)), milli=rng.choice((100, 250, 300, 333)))
        snapshot = a_snapshot(snapshot.nodes, [job], pools=[pool])
        plan = decide(snapshot)
        if plan.placements:
            snapshot = after(snapshot, plan)
            running.append((job, plan))
        while running and (not plan.placements or number == 399):
            job, plan_of_job = running.pop(rng.randrange(len(running)))
            snapshot = a_snapshot([_freed(node, job, plan_of_job) for node in snapshot.nodes], pools=[pool])
            if number < 399:
                break
    assert snapshot.nodes == empty.nodes


def _freed(node: Node, job: Request, plan: Plan) -> Node:
    """The node after the job's end: what a release in the database adds back."""
    task = plan.placements[0].tasks[0]
    if task.node_id != node.id:
        return node
    back = {share.device_id: share for share in task.shares}
    devices = tuple(
        replace(
            device,
            free_memory_mib=device.free_memory_mib + back[device.id].memory_mib,
            free_milli=device.free_milli + back[device.id].compute_milli,
        )
        if device.id in back
        else device
        for device in node.devices
    )
    return replace(
        node,
        devices=devices,
        free_cpu_milli=node.free_cpu_milli + job.resources.cpu_milli,
        free_memory_mib=node.free_memory_mib + job.resources.memory_mib,
    )


def test_a_whole_card_is_never_one_that_carries_shares_b009() -> None:
    cards = [a_device("a", used_slices=4), a_device("b", used_slices=4)]
    plan = decide(a_snapshot([a_node(devices=cards)], [a_job(gpus=1)]))
    assert reasons_of(plan, "j1") == {"pool_full": {"quantity": "gpus", "needed": 1, "free": 0}}


def test_shares_never_land_on_a_card_that_is_taken_whole_b009() -> None:
    cards = [a_device("a", is_whole_taken=True)]
    assert placed(decide(a_snapshot([a_node(devices=cards)], [a_job(gpus=1, slices=1)]))) == []


@pytest.mark.parametrize("whole_first", [True, False])
def test_one_whole_and_four_shares_at_once_do_not_meet_on_a_card_b009(whole_first: bool) -> None:
    jobs = [a_job("whole", 1, at=0 if whole_first else 9), *(a_job(f"s{n}", 1, slices=1, at=n) for n in range(1, 5))]
    plan = decide(a_snapshot([a_node(gpus=1)], jobs))
    assert placed(plan) == (["whole"] if whole_first else ["s1", "s2", "s3", "s4"])


def test_all_slices_of_a_card_are_not_the_whole_card() -> None:
    plan = decide(a_snapshot([a_node(gpus=1)], [a_job(gpus=1, slices=8)]))
    share = plan.placements[0].tasks[0].shares[0]
    assert (share.memory_mib, share.compute_milli, share.whole) == (8 * SLICE_MIB, 1000, False)


def test_free_cards_on_dead_nodes_and_broken_cards_are_not_used_b010() -> None:
    nodes = [a_node("n1", gpus=1, schedulable=False), a_node("n2", devices=[a_device("broken", usable=False)])]
    assert placed(decide(a_snapshot(nodes, [a_job("whole", 1), a_job("slice", 1, slices=1)]))) == []


# --- gangs -----------------------------------------------------------------------------------------


def test_a_gang_starts_as_a_whole_over_several_nodes() -> None:
    nodes = [a_node("n1", gpus=3), a_node("n2", gpus=4)]
    tasks = decide(a_snapshot(nodes, [a_job(gpus=2, tasks=3)])).placements[0].tasks
    assert [task.rank for task in tasks] == [0, 1, 2]
    assert sorted(task.node_id for task in tasks) == ["n1", "n2", "n2"]
    assert len({share.device_id for task in tasks for share in task.shares}) == 6


def test_a_gang_that_does_not_fit_as_a_whole_takes_nothing() -> None:
    nodes = [a_node("n1", gpus=3), a_node("n2", gpus=3)]
    plan = decide(a_snapshot(nodes, [a_job("gang", 2, tasks=3, at=1), a_job("next", 3, tasks=2, at=2)]))
    assert placed(plan) == ["next"]
    assert plan.placements[0].card_milli == 6000


def test_a_burst_of_gangs_runs_two_at_a_time_b013() -> None:
    nodes = [a_node("n1", gpus=4), a_node("n2", gpus=4)]
    jobs = [a_job(f"j{number:02}", 2, tasks=2, at=number, user=f"u{number % 10}") for number in range(50)]
    snapshot = a_snapshot(nodes, jobs)
    started = []
    while snapshot.pending:
        plan = decide(snapshot)
        assert len(plan.placements) == 2
        started += placed(plan)
        snapshot = a_snapshot(nodes, after(snapshot, plan).pending)  # those two end
    assert started == [job.id for job in jobs]


def test_packing_keeps_a_gang_together_and_spreading_takes_it_apart() -> None:
    nodes = [a_node("n1", gpus=4), a_node("n2", gpus=4)]
    for strategy, used in ((Strategy.PACK, ["n1", "n1"]), (Strategy.SPREAD, ["n1", "n2"])):
        plan = decide(a_snapshot(nodes, [a_job(gpus=1, tasks=2)], pools=[a_pool(strategy=strategy)]))
        assert [task.node_id for task in plan.placements[0].tasks] == used


def test_a_spread_gang_on_one_node_uses_its_cards_in_turn() -> None:
    pool = a_pool(strategy=Strategy.SPREAD)
    plan = decide(a_snapshot([a_node(gpus=2)], [a_job(gpus=1, slices=1, tasks=4)], pools=[pool]))
    assert sorted(cards_of(plan, "j1")) == ["n1-gpu0", "n1-gpu0", "n1-gpu1", "n1-gpu1"]


# --- quotas ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "pool", "code"),
    [
        (None, "pool", "quota_group"),
        (None, None, "quota_group"),
        ("ada", "pool", "quota_user"),
        ("ada", None, "quota_user"),
    ],
)
def test_every_scope_that_applies_must_have_room(user: str | None, pool: str | None, code: str) -> None:
    scope = a_scope("s", user=user, pool=pool, gpu_milli=(2_000, 1_000))
    jobs = [a_job("first", 1, at=1), a_job("second", 1, at=2), a_job("other", 1, at=3, user="bo", group="speech")]
    plan = decide(a_snapshot([a_node(gpus=8)], jobs, scopes=[scope]))
    assert placed(plan) == ["first", "other"]
    numbers = {"scope": "s", "quantity": "gpu_milli", "limit": 2_000, "used": 2_000, "asked": 1_000}
    assert reasons_of(plan, "second") == {code: numbers}


@pytest.mark.parametrize(
    ("quantity", "kind", "limit"),
    [
        ("cpu_milli", Kind.JOB, 2_000),
        ("memory_mib", Kind.JOB, 2_048),
        ("running_jobs", Kind.JOB, 2),
        ("environments", Kind.ENVIRONMENT, 2),
    ],
)
def test_each_quantity_is_limited(quantity: str, kind: Kind, limit: int) -> None:
    jobs = [a_job(str(number), kind=kind, at=number) for number in range(3)]
    limits: dict[str, Any] = {quantity: limit}
    plan = decide(a_snapshot([a_node()], jobs, scopes=[a_scope(**limits)]))
    assert placed(plan) == ["0", "1"]
    assert reasons_of(plan, "2")["quota_group"]["quantity"] == quantity


def test_an_exceeded_limit_stops_only_those_who_ask_for_more_of_it() -> None:
    scope = a_scope(gpu_milli=(1_000, 3_000))  # lowered while three cards ran
    plan = decide(a_snapshot([a_node(gpus=8)], [a_job("cpu"), a_job("gpu", 1)], scopes=[scope]))
    assert placed(plan) == ["cpu"]


def test_a_limit_of_zero_is_nothing_and_no_limit_is_everything() -> None:
    jobs = [a_job("a", 1, user="ada"), a_job("b", 1, user="bo")]
    scopes = [a_scope("s1", user="ada", gpu_milli=0), a_scope("s2", user="bo")]
    assert placed(decide(a_snapshot([a_node(gpus=8)], jobs, scopes=scopes))) == ["b"]


def test_a_gang_is_charged_as_a_whole() -> None:
    scope = a_scope(gpu_milli=3_999)
    plan = decide(a_snapshot([a_node(gpus=8)], [a_job(gpus=2, tasks=2)], scopes=[scope]))
    assert reasons_of(plan, "j1")["quota_group"]["asked"] == 4_000


def test_a_request_over_its_quota_lets_others_have_the_cards() -> None:
    jobs = [a_job("a", 1, at=1), a_job("b", 1, at=2, group="speech")]
    plan = decide(a_snapshot([a_node(gpus=1)], jobs, scopes=[a_scope(gpu_milli=0)]))
    assert placed(plan) == ["b"]
    assert set(reasons_of(plan, "a")) == {"quota_group", "pool_full"}


# --- pools, models, bad rows -----------------------------------------------------------------------


def test_requests_stay_in_their_pool() -> None:
    nodes = [a_node("n1", gpus=1, pool="dev"), a_node("n2", gpus=1, pool="train")]
    pools = [a_pool("dev"), a_pool("train", slices=0)]
    assert node_of(decide(a_snapshot(nodes, [a_job(gpus=1, pool="train")], pools=pools)), "j1") == "n2"


def test_a_request_gets_the_card_model_it_names() -> None:
    nodes = [a_node("n1", gpus=1, model="T4", memory_mib=15_360), a_node("n2", gpus=1)]
    assert node_of(decide(a_snapshot(nodes, [a_job(gpus=1, model="v100-32gb")])), "j1") == "n2"


def test_a_bad_row_waits_with_a_reason_and_disturbs_nobody_b016() -> None:
    jobs = [
        a_job("no-pool", 1, pool="gone"),
        a_job("negative", cpu=-4_000),
        a_job("no-tasks", tasks=0),
        a_job("no-gpu", 0, mib=4096),
        a_job("kind", kind=Kind.REPLICA),
        a_job("good", 1),
    ]
    pool = a_pool(kinds=[Kind.JOB])
    nodes = [a_node("n1", gpus=1), a_node("stray", gpus=1, pool="nowhere")]
    plan = decide(a_snapshot(nodes, jobs, pools=[pool]))
    assert placed(plan) == ["good"]
    codes = {one.request_id: one.reasons[0].code.value for one in plan.waiting}
    assert codes == {
        "no-pool": "node_unavailable",
        "negative": "no_such_device",
        "no-tasks": "no_such_device",
        "no-gpu": "no_such_device",
        "kind": "node_unavailable",
    }
