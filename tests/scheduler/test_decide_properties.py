"""What holds for every snapshot, against a second opinion that tries all ways to place a request."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.decide import decide
from scheduler.model import Device, Kind, Limit, Node, Placement, Plan, Pool, Reason, Request, Scope, Snapshot, Strategy
from scheduler.sizing import card_equivalent_milli, grant
from tests.scheduler.builders import (
    T4_MIB,
    V100_MIB,
    a_device,
    a_job,
    a_node,
    a_pool,
    a_scope,
    a_snapshot,
    after,
    applies,
    charges,
)

Row = TypeVar("Row")
CAPACITY_CODES = {Reason.POOL_FULL, Reason.FRAGMENTED, Reason.NO_SUCH_DEVICE, Reason.NODE_UNAVAILABLE}
QUOTA_CODES = {Reason.QUOTA_GROUP, Reason.QUOTA_USER}
CARDS = (("V100-32GB", V100_MIB), ("T4", T4_MIB))


@st.composite
def pools(draw: st.DrawFn, name: str) -> Pool:
    kinds = draw(st.sampled_from([frozenset(Kind), frozenset({Kind.JOB})]))
    slices = draw(st.sampled_from([0, 2, 8]))
    return a_pool(name, slices=slices, strategy=draw(st.sampled_from(Strategy)), kinds=kinds)


@st.composite
def devices(draw: st.DrawFn, name: str, pool: Pool) -> Device:
    model, memory_mib = draw(st.sampled_from(CARDS))
    usable = draw(st.sampled_from([True, True, True, False]))
    used = draw(st.sampled_from([0, 0, 0, 1, 2, -1]))
    if used < 0 or (used and pool.slices_per_gpu == 0):
        return a_device(name, model=model, memory_mib=memory_mib, is_whole_taken=True, usable=usable)
    return a_device(name, model=model, memory_mib=memory_mib, used_slices=used, usable=usable, pool=pool)


@st.composite
def node_sets(draw: st.DrawFn, pool: Pool, first: int) -> list[Node]:
    return [
        a_node(
            f"n{number}",
            devices=[draw(devices(f"n{number}g{card}", pool)) for card in range(draw(st.integers(0, 3)))],
            cpu=8_000,
            free_cpu=draw(st.sampled_from([8_000, 8_000, 4_000, 1_000])),
            memory=8_192,
            free_memory=draw(st.sampled_from([8_192, 8_192, 2_048])),
            pool=pool.id,
            schedulable=draw(st.sampled_from([True, True, True, False])),
        )
        for number in range(first, first + draw(st.integers(0, 2)))
    ]


@st.composite
def requests(draw: st.DrawFn, number: int) -> Request:
    share: dict[str, Any] = draw(
        st.sampled_from([{}, {}, {"slices": 1}, {"slices": 2}, {"mib": 4_096}, {"mib": 2_000, "milli": 400}])
    )
    return a_job(
        f"j{number}",
        draw(st.sampled_from([0, 1, 1, 2, 3] if not share else [1, 1, 2])),
        kind=draw(st.sampled_from([Kind.JOB, Kind.JOB, Kind.ENVIRONMENT])),
        user=draw(st.sampled_from(["ada", "bo"])),
        pool=draw(st.sampled_from(["p1", "p1", "p2"])),
        priority=draw(st.sampled_from([40, 50, 60])),
        at=draw(st.integers(0, 2)),
        tasks=draw(st.sampled_from([1, 1, 1, 2, 3])),
        held=draw(st.sampled_from([False, False, False, True])),
        cpu=draw(st.sampled_from([1_000, 4_000])),
        memory=draw(st.sampled_from([1_024, 2_048])),
        model=draw(st.sampled_from([None, None, "T4"])) if share else None,
        **share,
    )


@st.composite
def quota_scopes(draw: st.DrawFn, scope_id: str) -> Scope:
    steps = {"gpu_milli": 500, "cpu_milli": 2_000, "running_jobs": 1}
    drawn = {name: draw(st.none() | st.integers(0, 8)) for name in steps}
    limits: dict[str, Any] = {name: number * steps[name] for name, number in drawn.items() if number is not None}
    user, pool = draw(st.sampled_from([None, "ada"])), draw(st.sampled_from([None, "p1"]))
    return a_scope(scope_id, user=user, pool=pool, **limits)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    p1, p2 = draw(pools("p1")), draw(pools("p2"))
    nodes = [*draw(node_sets(p1, 1)), *draw(node_sets(p2, 5))]
    scopes = [draw(quota_scopes(f"s{number}")) for number in range(draw(st.integers(0, 2)))]
    pending = [draw(requests(number)) for number in range(draw(st.integers(1, 6)))]
    return a_snapshot(nodes, pending, scopes=scopes, pools=[p1, p2])


any_snapshot = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@any_snapshot
@given(snapshots(), st.randoms(use_true_random=False))
def test_every_request_is_answered_once_whatever_the_order_of_rows(snapshot: Snapshot, shuffle: Random) -> None:
    plan = decide(snapshot)
    answered = [one.request_id for one in plan.placements] + [one.request_id for one in plan.waiting]
    assert sorted(answered) == sorted(request.id for request in snapshot.pending)

    def mixed(rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(shuffle.sample(rows, len(rows)))

    again = replace(
        snapshot,
        pools=mixed(snapshot.pools),
        nodes=mixed([replace(node, devices=mixed(node.devices)) for node in snapshot.nodes]),
        scopes=mixed(snapshot.scopes),
        pending=mixed(snapshot.pending),
    )
    assert decide(again) == plan


@any_snapshot
@given(snapshots())
def test_nothing_is_ever_given_twice_or_beyond_a_limit(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    left = after(snapshot, plan)
    for node in left.nodes:
        assert min(node.free_cpu_milli, node.free_memory_mib) >= 0
        for device in node.devices:
            assert min(device.free_milli, device.free_memory_mib) >= 0
    for before, scope in zip(snapshot.scopes, left.scopes, strict=True):
        for name in charges(snapshot.pending[0], 0):
            was, now = getattr(before, name), getattr(scope, name)
            assert now.limit is None or now.used == was.used or now.used <= now.limit
    _assert_each_placement_is_what_was_asked(snapshot, plan)


def _assert_each_placement_is_what_was_asked(snapshot: Snapshot, plan: Plan) -> None:
    """All ranks of a gang, on open nodes of its pool, each with the right shares of different usable cards."""
    requests_by_id = {request.id: request for request in snapshot.pending}
    pools_by_id = {pool.id: pool for pool in snapshot.pools}
    nodes = {node.id: node for node in snapshot.nodes}
    shared_by: Counter[str] = Counter()
    whole_by: Counter[str] = Counter()
    for placement in plan.placements:
        request = requests_by_id[placement.request_id]
        pool = pools_by_id[request.pool_id]
        assert not request.held
        assert request.kind in pool.kinds
        assert [task.rank for task in placement.tasks] == list(range(request.tasks))
        cards = [device for node in snapshot.nodes if node.pool_id == pool.id for device in node.devices]
        assert placement.card_milli == card_equivalent_milli(request.resources, pool, cards) * request.tasks
        for task in placement.tasks:
            node = nodes[task.node_id]
            assert node.schedulable
            assert node.pool_id == pool.id
            assert len({share.device_id for share in task.shares}) == len(task.shares) == request.resources.gpus
            for share in task.shares:
                device = next(device for device in node.devices if device.id == share.device_id)
                given_by_card = grant(request.resources, pool, device.model, device.memory_mib)
                assert device.usable
                assert given_by_card is not None
                assert (share.memory_mib, share.compute_milli) == (
                    given_by_card.memory_mib,
                    given_by_card.compute_milli,
                )
                (whole_by if share.whole else shared_by)[device.id] += 1
                assert not share.whole or device.is_empty
    assert not whole_by.keys() & shared_by.keys()
    assert max(whole_by.values(), default=1) == 1


@any_snapshot
@given(snapshots())
def test_nothing_that_could_start_waits_and_each_reason_is_true(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    left = after(snapshot, plan)
    waiting = {one.request_id: {reason.code for reason in one.reasons} for one in plan.waiting}
    for request in left.pending:
        codes = waiting[request.id]
        fits = _can_be_placed(left, request)
        in_quota = _is_within_quota(left, request)
        assert request.held or not (fits and in_quota)
        assert (Reason.HELD in codes) == request.held
        assert bool(codes & QUOTA_CODES) == (not in_quota)
        assert bool(codes & CAPACITY_CODES) == (not fits)
        assert all(reason.message for one in plan.waiting for reason in one.reasons)


@any_snapshot
@given(snapshots())
def test_a_plan_leaves_nothing_for_a_second_look(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    again = decide(after(snapshot, plan))
    assert again.placements == ()
    assert again.waiting == plan.waiting


@any_snapshot
@given(
    strategy=st.sampled_from(Strategy),
    slices=st.sampled_from([0, 4]),
    gpus=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    wishes=st.lists(st.integers(0, 4), min_size=2, max_size=14),
)
def test_deciding_one_by_one_gives_the_same_places(
    strategy: Strategy, slices: int, gpus: list[int], wishes: list[int]
) -> None:
    """What a search remembers of the pool never differs from looking at it anew."""
    shapes: list[dict[str, Any]] = [
        {"gpus": 1},
        {"gpus": 1, "mib": 8_000},
        {"gpus": 2, "mib": 1_000, "tasks": 2},
        {"gpus": 1, "mib": 16_000, "cpu": 5_000},
        {"cpu": 3_000},
    ]
    jobs = [a_job(f"j{number:02}", at=number, **shapes[wish]) for number, wish in enumerate(wishes)]
    nodes = [a_node(f"n{number}", gpus=count, cpu=12_000) for number, count in enumerate(gpus)]
    together = a_snapshot(nodes, jobs, pools=[a_pool(slices=slices, strategy=strategy)])
    places: list[Placement] = []
    one_by_one = replace(together, pending=())
    for job in jobs:
        plan = decide(replace(one_by_one, pending=(job,)))
        places += plan.placements
        one_by_one = after(replace(one_by_one, pending=(job,)), plan)
    assert list(decide(together).placements) == places


def queue_order(request: Request) -> tuple[int, int, str]:
    """Within one group: higher priority first, then who queued first, then id."""
    return -request.priority, request.queued_at_us, request.id


@any_snapshot
@given(snapshots())
def test_the_order_of_the_queue_is_kept_among_requests_of_the_same_owner_and_needs(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    started = {one.request_id for one in plan.placements}
    passed: set[tuple[object, ...]] = set()
    for request in sorted(snapshot.pending, key=queue_order):
        owner_and_needs = (request.pool_id, request.user_id, request.kind, request.tasks, request.resources)
        if request.id in started:
            assert owner_and_needs not in passed
        elif not request.held:
            passed.add(owner_and_needs)
    _assert_positions_count_from_one(snapshot, plan)


def _assert_positions_count_from_one(snapshot: Snapshot, plan: Plan) -> None:
    """In each pool, in the order of the queue, those that are held last."""
    position = {one.request_id: one.position for one in plan.waiting}
    for pool in snapshot.pools:
        in_line = [request for request in snapshot.pending if request.id in position and request.pool_id == pool.id]
        in_line.sort(key=lambda request: (request.held, queue_order(request)))
        assert [position[request.id] for request in in_line] == list(range(1, len(in_line) + 1))


def _is_within_quota(snapshot: Snapshot, request: Request) -> bool:
    pool = next(pool for pool in snapshot.pools if pool.id == request.pool_id)
    cards = [device for node in snapshot.nodes if node.pool_id == pool.id for device in node.devices]
    card_milli = card_equivalent_milli(request.resources, pool, cards) * request.tasks
    for scope in snapshot.scopes:
        for name, amount in charges(request, card_milli).items():
            limit: Limit = getattr(scope, name)
            if applies(scope, request) and amount and limit.limit is not None and limit.used + amount > limit.limit:
                return False
    return True


def _can_be_placed(snapshot: Snapshot, request: Request) -> bool:
    """Tries every choice of node and cards for one task after the other."""
    pool = next(pool for pool in snapshot.pools if pool.id == request.pool_id)
    nodes = [node for node in snapshot.nodes if node.pool_id == pool.id and node.schedulable]
    return request.kind in pool.kinds and _can_place_tasks(nodes, request, pool, request.tasks)


def _can_place_tasks(nodes: list[Node], request: Request, pool: Pool, tasks: int) -> bool:
    if tasks == 0:
        return True
    for place, node in enumerate(nodes):
        for emptier in _with_one_task(node, request, pool):
            if _can_place_tasks([*nodes[:place], emptier, *nodes[place + 1 :]], request, pool, tasks - 1):
                return True
    return False


def _with_one_task(node: Node, request: Request, pool: Pool) -> Iterator[Node]:
    needs = request.resources
    if needs.cpu_milli > node.free_cpu_milli or needs.memory_mib > node.free_memory_mib:
        return
    taken: dict[str, Device] = {}
    for device in node.devices:
        share = grant(needs, pool, device.model, device.memory_mib)
        if share is None or not device.usable or (share.whole and not device.is_empty):
            continue
        free_mib, free_milli = device.free_memory_mib - share.memory_mib, device.free_milli - share.compute_milli
        if free_mib >= 0 and free_milli >= 0:
            taken[device.id] = replace(device, free_memory_mib=free_mib, free_milli=free_milli)
    for chosen in combinations(sorted(taken), needs.gpus):
        yield replace(
            node,
            free_cpu_milli=node.free_cpu_milli - needs.cpu_milli,
            free_memory_mib=node.free_memory_mib - needs.memory_mib,
            devices=tuple(taken[device.id] if device.id in chosen else device for device in node.devices),
        )
