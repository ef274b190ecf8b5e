"""What holds for every cluster on which work runs, is lent, is asked to leave and queues again."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.decide import decide
from scheduler.fairness import SECOND_US
from scheduler.model import Kind, LendingRule, Limit, Pool, Reason, Request, Reserve, Scope, Snapshot, TakeBack
from tests.scheduler.builders import a_job, a_node, a_pool, a_scope, a_snapshot, after, charges
from tests.scheduler.world import World, freed

Row = TypeVar("Row")
NOW_US = 1_772_409_600 * SECOND_US
GROUPS = ("a", "b", "c")
any_world = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def jobs(draw: st.DrawFn, name: str, *, limits: Sequence[int | None] = (None, None, 600, 1_800)) -> Request:
    kind = draw(st.sampled_from([Kind.JOB, Kind.JOB, Kind.JOB, Kind.ENVIRONMENT]))
    is_whole = kind is Kind.JOB and draw(st.sampled_from([True, True, False]))
    share: dict[str, Any] = {} if is_whole else {"slices": draw(st.sampled_from([1, 4, 8]))}
    job = a_job(
        name,
        draw(st.sampled_from([1, 1, 1, 2])) if is_whole else 1,
        kind=kind,
        group=draw(st.sampled_from(GROUPS)),
        pool=draw(st.sampled_from(["dev", "train", "train"] if kind is Kind.JOB else ["dev", "dev", "train"])),
        priority=draw(st.sampled_from([40, 50, 50, 60])),
        at=NOW_US - draw(st.sampled_from([0, 300, 1_000])) * SECOND_US,
        tasks=draw(st.sampled_from([1, 1, 1, 2])),
        **share,
    )
    preemptible = draw(st.sampled_from([True, True, True, False]))
    return replace(job, preemptible=preemptible, time_limit_s=draw(st.sampled_from(limits)))


@st.composite
def group_scopes(draw: st.DrawFn) -> list[Scope]:
    scopes = []
    for group in GROUPS:
        for pool in ("dev", "train"):
            limited = draw(st.sampled_from([False, False, True]))
            limit: dict[str, Any] = {"gpu_milli": draw(st.sampled_from([1_500, 4_000]))} if limited else {}
            scope = a_scope(f"{group}-{pool}", group=group, pool=pool, **limit)
            guaranteed = draw(st.sampled_from([None, 0, 1_000, 2_000]))
            usage, weight = draw(st.sampled_from([0, 10**6, 10**9])), draw(st.sampled_from([1, 3]))
            scopes.append(replace(scope, guaranteed_milli=guaranteed, usage=usage, weight=weight))
    return scopes


@st.composite
def worlds(draw: st.DrawFn, *, limits: Sequence[int | None] = (None, None, 600, 1_800)) -> World:
    """A full cluster with a past: some of it was submitted before the rest and has been running for some time."""
    gap = draw(st.sampled_from([None, 0, 10]))
    pools: list[Pool] = [replace(a_pool(name), priority_gap=gap) for name in ("dev", "train")]
    nodes = [
        a_node(f"{pool}{number}", gpus=draw(st.integers(1, 2)), pool=pool, cpu=16_000)
        for pool in ("dev", "train")
        for number in range(draw(st.integers(1, 2)))
    ]
    early = [draw(jobs(f"e{number}", limits=limits)) for number in range(draw(st.integers(0, 10)))]
    late = [draw(jobs(f"l{number}", limits=limits)) for number in range(draw(st.integers(1, 6)))]
    rules = [
        LendingRule(f"r{number}", "dev", "train", take_back=take_back, keep_free_slices=draw(st.sampled_from([0, 5])))
        for number, take_back in enumerate(draw(st.lists(st.sampled_from(TakeBack), max_size=2)))
    ]
    reserves = [Reserve("w", "dev", slices) for slices in draw(st.lists(st.sampled_from([4, 9]), max_size=1))]
    snapshot = replace(
        a_snapshot(nodes, early, scopes=draw(group_scopes()), pools=pools), now_us=NOW_US, lending=tuple(rules)
    )
    world = World(snapshot)
    if early:
        world.decide()
        world.wait(draw(st.sampled_from([60, 400, 400])))
    world.snapshot = replace(world.snapshot, reserves=tuple(reserves))
    world.submit(*late)
    return world


def assert_sound(snapshot: Snapshot) -> None:
    """Nothing is given twice; limits hold, and what scopes count as used is what runs."""
    for node in snapshot.nodes:
        assert min(node.free_cpu_milli, node.free_memory_mib) >= 0
        assert all(min(device.free_milli, device.free_memory_mib) >= 0 for device in node.devices)
    for scope in snapshot.scopes:
        held = sum(
            work.card_milli
            for work in snapshot.running
            if (work.group_id, work.pool_id) == (scope.group_id, scope.pool_id)
        )
        assert scope.gpu_milli.used == held
        assert scope.gpu_milli.limit is None or held <= scope.gpu_milli.limit


@any_world
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(world: World, shuffle: Random) -> None:
    def mixed(rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(shuffle.sample(rows, len(rows)))

    snapshot = world.snapshot
    again = replace(
        snapshot,
        pools=mixed(snapshot.pools),
        nodes=mixed([replace(node, devices=mixed(node.devices)) for node in snapshot.nodes]),
        scopes=mixed(snapshot.scopes),
        pending=mixed(snapshot.pending),
        running=mixed(snapshot.running),
        lending=mixed(snapshot.lending),
        reserves=mixed(snapshot.reserves),
    )
    assert decide(again) == decide(snapshot)


@any_world
@given(worlds(), st.lists(st.sampled_from([0, 30, 200, 500]), min_size=3, max_size=8))
def test_over_time_nothing_is_ever_over_capacity_or_a_limit_and_all_is_answered(world: World, steps: list[int]) -> None:
    for seconds in steps:
        before = world.snapshot
        plan = world.decide()
        assert_sound(world.snapshot)
        answered = [one.request_id for one in plan.placements] + [one.request_id for one in plan.waiting]
        assert sorted(answered) == sorted(request.id for request in before.pending)
        assert all(one.reasons and all(reason.message for reason in one.reasons) for one in plan.waiting)
        world.wait(seconds)
        assert_sound(world.snapshot)


@any_world
@given(worlds())
def test_victims_are_preemptible_jobs_that_have_run_long_enough_or_are_on_lent_cards(world: World) -> None:
    snapshot = world.snapshot
    pool_of = {node.id: node.pool_id for node in snapshot.nodes}
    plan = decide(snapshot)
    names = [one.workload_id for one in plan.preemptions]
    assert len(names) == len(set(names))
    requests = {request.id: request for request in snapshot.pending}
    for preemption in plan.preemptions:
        victim = world.running[preemption.workload_id]
        assert victim.kind is Kind.JOB
        assert victim.preemptible
        assert not victim.is_leaving
        is_lent = pool_of[victim.tasks[0].node_id] != victim.pool_id
        ran_us = snapshot.now_us - (victim.started_at_us or snapshot.now_us)
        assert is_lent or ran_us >= 300 * SECOND_US
        if preemption.beneficiary is None:
            assert is_lent
        elif not is_lent:
            assert requests[preemption.beneficiary].priority >= victim.priority


@any_world
@given(worlds())
def test_victims_are_enough_and_none_is_too_many(world: World) -> None:
    """For one request alone: it starts when all have left, and never when one of them stays."""
    for request in world.snapshot.pending:
        alone = replace(world.snapshot, pending=(request,), reserves=())
        plan = decide(alone)
        victims = [world.running[one.workload_id] for one in plan.preemptions]
        for kept in [None, *victims]:
            gone = [work for work in victims if work is not kept]
            names = {work.id for work in gone}
            left = replace(
                freed(alone, gone, world.requests),
                running=tuple(work for work in alone.running if work.id not in names),
            )
            if victims:
                assert (len(decide(left).placements) == 1) == (kept is None)


@any_world
@given(worlds(limits=(None,)))
def test_no_two_ever_take_turns(world: World) -> None:
    """Nothing arrives and nothing ends: preemption comes to rest, however long it is watched."""
    for _ in range(25):
        world.decide()
        world.wait(30)
        world.decide()
        world.wait(300)
    count = len(world.preempted)
    for _ in range(6):
        world.decide()
        world.wait(30)
        world.decide()
        world.wait(300)
    assert len(world.preempted) == count


@any_world
@given(worlds())
def test_whoever_waits_though_it_would_fit_waits_for_a_stated_reason(world: World) -> None:
    """Work-conserving: room that is free is kept only for a reservation, a claim, or by a lending rule."""
    plan = decide(world.snapshot)
    left = after(world.snapshot, plan)
    stated = {
        Reason.RESERVED_FOR_OTHER,
        Reason.QUOTA_GROUP,
        Reason.QUOTA_USER,
    }
    codes = {one.request_id: {reason.code for reason in one.reasons} for one in plan.waiting}
    for request in left.pending:
        alone = replace(left, pending=(request,), running=(), lending=(), reserves=())
        if decide(alone).placements:
            assert codes[request.id] & stated
            assert plan.reservations or any(
                other.id != request.id and (plan.preemptions or any(work.is_leaving for work in left.running))
                for other in left.pending
            )


@any_world
@given(worlds())
def test_priority_is_never_inverted_but_for_what_does_not_fit(world: World) -> None:
    """Of two requests of equal needs and owner, the one of lower priority never starts alone."""
    snapshot = world.snapshot
    started = {one.request_id for one in decide(snapshot).placements}
    for high in snapshot.pending:
        for low in snapshot.pending:
            alike = replace(low, id=high.id, priority=high.priority, queued_at_us=high.queued_at_us)
            if high.priority > low.priority and alike == high:
                assert high.id in started or low.id not in started


@any_world
@given(worlds(limits=(300, 600, 1_800)), st.integers(1, 2))
def test_whoever_is_promised_a_start_starts_by_then(world: World, gpus: int) -> None:
    """Everything has a time limit and nothing of higher claim arrives; a stream of small work goes on."""
    big = replace(a_job("big", gpus, group="a", pool="train", at=NOW_US - 10**10), time_limit_s=600)
    world.snapshot = replace(world.snapshot, lending=(), reserves=(), scopes=())
    world.submit(big)
    promised_us = None
    for number in range(60):
        world.submit(replace(a_job(f"s{number:02}", 1, pool="train", group="b", at=NOW_US), time_limit_s=600))
        plan = world.decide()
        for one in plan.reservations:
            if one.request_id == "big":
                promised_us = promised_us or one.starts_at_us
        if "big" in world.started_at_us:
            break
        world.wait(60)
    has_higher = any(one.priority > big.priority for one in world.requests.values())
    if promised_us is not None and not has_higher:
        assert world.started_at_us["big"] <= promised_us + 60 * SECOND_US


def test_the_ledger_equals_a_recount_after_many_operations() -> None:
    """Ten thousand starts and ends of shares of all sizes: what is free and used is what a recount says."""
    rng = Random(3)
    scopes = [a_scope(f"s{group}", group=group, pool="pool", gpu_milli=5_000) for group in GROUPS]
    nodes = [a_node(f"n{number}", gpus=2) for number in range(3)]
    world = World(a_snapshot(nodes, scopes=scopes, pools=[a_pool(slices=0)]))
    empty = world.snapshot.nodes
    for number in range(1_500):
        share: dict[str, Any] = rng.choice([{}, {"milli": 333}, {"milli": 180}, {"mib": 4_001}])
        world.submit(a_job(f"j{number:05}", 1, group=rng.choice(GROUPS), at=number, **share))
        world.decide()
        works = list(world.snapshot.running)
        while len(works) > 8 or (works and rng.random() < 0.4):
            world.release(works.pop(rng.randrange(len(works))))
        if number % 100 == 0:
            recounted = {
                scope.id: Limit(
                    5_000, sum(work.card_milli for work in world.snapshot.running if work.group_id == scope.group_id)
                )
                for scope in scopes
            }
            assert {scope.id: scope.gpu_milli for scope in world.snapshot.scopes} == recounted
    for work in world.snapshot.running:
        world.release(work)
    assert world.snapshot.nodes == empty
    assert all(getattr(scope, name).used == 0 for scope in world.snapshot.scopes for name in charges(a_job(), 0))
