"""Named cases of what running work means for those that wait: lent cards, guarantees, preemption, reservations."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.decide import decide
from scheduler.fairness import SECOND_US
from scheduler.model import (
    Cause,
    Kind,
    LendingRule,
    Plan,
    Pool,
    Request,
    Reserve,
    Scope,
    Strategy,
    TakeBack,
    Window,
)
from tests.scheduler.builders import a_job, a_node, a_pool, a_scope, a_snapshot, cards_of, node_of, reasons_of
from tests.scheduler.world import World

HOUR_S = 3600
MONDAY_US = 1_772_409_600 * SECOND_US  # 2 March 2026 00:00 UTC
NIGHTS = tuple(Window(day * 1440 + 20 * 60, (day + 1) * 1440 + 8 * 60) for day in range(5))
DEV = a_pool("dev", kinds=[Kind.ENVIRONMENT])
TRAIN = a_pool("train", kinds=[Kind.JOB])


def a_training_job(name: str, gpus: int = 1, *, limit_h: int | None = None, **job: Any) -> Request:
    fields = {name: job.pop(name) for name in ("preemptible",) if name in job}
    limit_s = None if limit_h is None else limit_h * HOUR_S
    return replace(a_job(name, gpus, **{"pool": "train", **job}), time_limit_s=limit_s, **fields)


def an_environment(name: str, *, slices: int = 1, pool: str = "dev", **job: Any) -> Request:
    return a_job(name, 1, slices=slices, kind=Kind.ENVIRONMENT, pool=pool, **job)


def a_rule(**fields: Any) -> LendingRule:
    return LendingRule(**{"id": "r", "lender": "dev", "borrower": "train", **fields})


def two_pools(*pending: Request, at_h: int = 0, cards: int = 2, **fields: Any) -> World:
    """One lending and one borrowing node of ``cards`` cards each, so many hours after Monday 00:00."""
    nodes = [a_node("d1", gpus=cards, pool="dev"), a_node("t1", gpus=cards, pool="train")]
    snapshot = a_snapshot(nodes, pending, pools=fields.pop("pools", [DEV, TRAIN]))
    fields = {"lending": (a_rule(take_back=TakeBack.CHECKPOINT),), **fields}
    return World(replace(snapshot, now_us=MONDAY_US + at_h * HOUR_S * SECOND_US, **fields))


def one_pool(*pending: Request, gpus: int = 2, scopes: tuple[Scope, ...] = (), pool: Pool | None = None) -> World:
    snapshot = a_snapshot([a_node("n1", gpus=gpus)], pending, pools=[pool or a_pool()], scopes=scopes)
    return World(replace(snapshot, now_us=MONDAY_US))


def asked_to_leave(plan: Plan) -> list[str]:
    return [one.workload_id for one in plan.preemptions]


def started(plan: Plan) -> list[str]:
    return [one.request_id for one in plan.placements]


# --- lending ---------------------------------------------------------------------------------------


def test_idle_cards_of_another_pool_run_jobs_and_say_so() -> None:
    plan = two_pools(*(a_training_job(f"j{number}", at=number) for number in range(5))).decide()
    assert [(one.request_id, one.tasks[0].node_id, one.lent_by) for one in plan.placements] == [
        ("j0", "t1", None),
        ("j1", "t1", None),
        ("j2", "d1", "r"),
        ("j3", "d1", "r"),
    ]


def test_only_jobs_are_let_in() -> None:
    plan = two_pools(replace(a_job("r", 1, kind=Kind.REPLICA, pool="train")), pools=[DEV, a_pool("train")], cards=0)
    assert started(plan.decide()) == []


@pytest.mark.parametrize(
    ("at_h", "limit_h", "take_back", "preemptible", "is_let_in"),
    [
        pytest.param(20, 12, TakeBack.WAIT, True, True, id="ends as the window closes"),
        pytest.param(21, 12, TakeBack.WAIT, True, False, id="would end an hour late"),
        pytest.param(21, None, TakeBack.WAIT, True, False, id="might never end"),
        pytest.param(12, 1, TakeBack.WAIT, True, False, id="closed at noon"),
        pytest.param(21, 12, TakeBack.CHECKPOINT, True, True, id="may be asked to leave"),
        pytest.param(21, None, TakeBack.CHECKPOINT, True, True, id="may be asked to leave whenever it would end"),
        pytest.param(21, 12, TakeBack.CHECKPOINT, False, False, id="may not be asked to leave"),
        pytest.param(21, 11, TakeBack.CHECKPOINT, False, True, id="may not, but ends in time"),
    ],
)
def test_a_window_lets_in_what_leaves_in_time(
    at_h: int, limit_h: int | None, take_back: TakeBack, preemptible: bool, is_let_in: bool
) -> None:
    job = a_training_job("j", 2, limit_h=limit_h, preemptible=preemptible)
    rule = a_rule(windows=NIGHTS, take_back=take_back)
    blocker = a_training_job("full", 1, priority=90)
    plan = two_pools(job, blocker, at_h=at_h, lending=(rule,)).decide()
    assert (started(plan) == ["full", "j"]) == is_let_in
    if not is_let_in:
        assert "window_closed" in reasons_of(plan, "j")


def test_what_may_not_be_asked_to_leave_needs_a_window_to_end_in() -> None:
    world = two_pools(a_training_job("j", 2, limit_h=1, preemptible=False), a_training_job("full", 1, priority=90))
    assert started(world.decide()) == ["full"]


def test_before_a_window_closes_lent_work_is_asked_to_leave_and_the_rest_stays() -> None:
    rule = a_rule(windows=NIGHTS, take_back=TakeBack.CHECKPOINT, notice_s=600)
    jobs = [a_training_job("long", limit_h=48, at=1), a_training_job("short", limit_h=2, at=2)]
    world = two_pools(*jobs, *(a_training_job(f"own{n}", priority=90) for n in (1, 2)), at_h=30, lending=(rule,))
    assert started(world.decide()) == ["own1", "own2", "long", "short"]
    world.wait(2 * HOUR_S - 601)
    assert asked_to_leave(world.decide()) == []
    world.wait(1)
    plan = world.decide()
    assert [(one.workload_id, one.cause, one.beneficiary) for one in plan.preemptions] == [
        ("long", Cause.RECLAIMED, None)
    ]
    world.wait(30)
    plan = world.decide()
    assert started(plan) == []  # nobody is let in for the last minutes
    assert "window_closed" in reasons_of(plan, "long")


@pytest.mark.parametrize(("kept", "lent"), [({}, 2), ({"keep_free_slices": 8}, 1), ({"keep_free_slices": 9}, 0)])
def test_what_is_kept_free_is_not_lent(kept: dict[str, int], lent: int) -> None:
    jobs = [a_training_job(f"j{number}", at=number) for number in range(5)]
    rule = a_rule(take_back=TakeBack.CHECKPOINT, **kept)
    plan = two_pools(*jobs, lending=(rule,)).decide()
    assert sum(one.lent_by == "r" for one in plan.placements) == lent
    if kept:
        numbers = {"lender": "dev", "kept_slices": kept["keep_free_slices"]}
        assert reasons_of(plan, "j4")["reserved_for_other"] == numbers


def test_empty_cards_are_kept_free_as_cards() -> None:
    jobs = [a_training_job(f"j{number}", at=number) for number in range(5)]
    rule = a_rule(take_back=TakeBack.CHECKPOINT, keep_free_cards=1)
    plan = two_pools(*jobs, an_environment("e"), lending=(rule,), cards=3).decide()
    assert sum(one.lent_by == "r" for one in plan.placements) == 1


def test_lent_work_never_shares_a_card_with_the_lenders_own() -> None:
    jobs = [a_training_job(f"s{number}", slices=2, at=number) for number in range(9)]
    blocker = a_training_job("full", 2, priority=90)
    plan = two_pools(an_environment("e"), blocker, *jobs).decide()
    assert cards_of(plan, "e") == ["d1-gpu0"]
    assert {card for job in jobs[:4] for card in cards_of(plan, job.id)} == {"d1-gpu1"}
    assert len(plan.placements) == 6


def test_environments_are_packed_while_their_pool_lends_and_spread_when_it_does_not() -> None:
    pools = [replace(DEV, strategy=Strategy.SPREAD), TRAIN]
    environments = [an_environment(f"e{number}", at=number) for number in range(4)]
    rule = a_rule(windows=NIGHTS)
    night = two_pools(*environments, pools=pools, lending=(rule,), at_h=21).decide()
    assert {card for one in environments for card in cards_of(night, one.id)} == {"d1-gpu0"}
    day = two_pools(*environments, pools=pools, lending=(rule,), at_h=12).decide()
    assert {card for one in environments for card in cards_of(day, one.id)} == {"d1-gpu0", "d1-gpu1"}


def test_an_environment_takes_a_lent_card_back_at_once_and_one_card_serves_eight() -> None:
    world = two_pools(*(a_training_job(f"j{number}", at=number) for number in range(4)))
    world.decide()
    world.submit(*(an_environment(f"e{number}", at=100 + number) for number in range(8)))
    world.wait(10)
    plan = world.decide()
    assert [(one.cause, one.beneficiary) for one in plan.preemptions] == [(Cause.RECLAIMED, "e0")]
    assert started(plan) == []
    assert asked_to_leave(world.decide()) == []  # its room is coming
    world.wait(30)
    assert sorted(started(world.decide())) == [f"e{number}" for number in range(8)]


def test_a_rule_that_waits_is_never_taken_back_by_force() -> None:
    world = two_pools(*(a_training_job(f"j{number}", limit_h=2, at=number) for number in range(4)), lending=(a_rule(),))
    world.decide()
    world.submit(an_environment("e"))
    world.wait(600)
    assert asked_to_leave(world.decide()) == []
    world.wait(2 * HOUR_S - 600)
    assert "e" in started(world.decide())


def test_the_cheapest_lent_job_leaves() -> None:
    world = two_pools(*(a_training_job(f"j{number}", at=number) for number in range(4)))
    world.decide()
    world.wait(2 * HOUR_S)
    saved = {"j3": world.snapshot.now_us - 60 * SECOND_US, "j2": world.snapshot.now_us - 600 * SECOND_US}
    works = tuple(replace(work, saved_at_us=saved.get(work.id)) for work in world.snapshot.running)
    world.snapshot = replace(world.snapshot, running=works)
    world.submit(an_environment("e"))
    assert asked_to_leave(world.decide()) == ["j3"]


def test_a_reserve_takes_cards_back_before_anyone_asks() -> None:
    reserve = Reserve("warm", "dev", 9, (Window(8 * 60 + 30, 10 * 60 + 30),))
    world = two_pools(
        *(a_training_job(f"j{number}", at=number) for number in range(6)), cards=3, at_h=8, reserves=(reserve,)
    )
    assert len(world.decide().placements) == 6
    world.wait(1800)
    plan = world.decide()
    assert [(one.cause, one.beneficiary) for one in plan.preemptions] == [(Cause.RECLAIMED, None)] * 2
    world.wait(30)
    plan = world.decide()
    assert (started(plan), asked_to_leave(plan)) == ([], [])
    world.submit(*(an_environment(f"e{number}") for number in range(9)))
    plan = world.decide()
    assert len(plan.placements) == 9  # nobody waits, and what they use counts as the reserve's
    assert asked_to_leave(plan) == []


def test_work_that_cannot_leave_is_not_lent_what_a_later_reserve_needs() -> None:
    reserve = Reserve("warm", "dev", 16, (Window(8 * 60 + 30, 10 * 60 + 30),))
    blocker = a_training_job("full", 2, priority=90)
    for limit_h, is_let_in in ((1, True), (2, False)):
        job = a_training_job("j", limit_h=limit_h)
        plan = two_pools(job, blocker, at_h=7, lending=(a_rule(),), reserves=(reserve,)).decide()
        assert ("j" in started(plan)) == is_let_in


# --- guarantees and shares -------------------------------------------------------------------------


def test_of_equal_priority_a_group_under_its_guarantee_comes_first() -> None:
    scopes = (a_scope("s1", group="vision", pool="pool"), a_scope("s2", group="speech", pool="pool"))
    guaranteed = replace(scopes[1], guaranteed_milli=1_000)
    jobs = [a_job("old", 1, at=1), a_job("new", 1, at=2, group="speech"), a_job("over", 1, at=3, group="speech")]
    assert started(one_pool(*jobs, scopes=(scopes[0], guaranteed)).decide()) == ["new", "old"]
    urgent = replace(jobs[0], priority=60)
    assert started(one_pool(urgent, *jobs[1:], scopes=(scopes[0], guaranteed)).decide()) == ["old", "new"]


def test_the_group_that_used_less_for_its_weight_comes_first() -> None:
    used = {"a": (6_000, 3), "b": (5_000, 1), "c": (9_000, 3)}
    scopes = tuple(
        replace(a_scope(name, group=name, pool="pool"), usage=usage * 10**6, weight=weight)
        for name, (usage, weight) in used.items()
    )
    jobs = [a_job(name, 1, group=name) for name in "cba"]
    assert started(one_pool(*jobs, gpus=3, scopes=scopes).decide()) == ["a", "c", "b"]


def test_what_one_group_starts_in_a_cycle_counts_at_once() -> None:
    jobs = [a_job(f"a{number}", 1, group="a", at=number) for number in range(4)]
    jobs += [a_job(f"b{number}", 1, group="b", at=10 + number) for number in range(2)]
    assert started(one_pool(*jobs, gpus=4).decide()) == ["a0", "b0", "a1", "b1"]


def test_a_guarantee_is_taken_back_from_who_borrowed_it_and_no_more() -> None:
    scopes = (
        replace(a_scope("s1", group="a", pool="pool"), guaranteed_milli=2_000),
        replace(a_scope("s2", group="b", pool="pool"), guaranteed_milli=2_000),
    )
    world = one_pool(*(a_job(f"b{number}", 1, group="b", at=number) for number in range(4)), gpus=4, scopes=scopes)
    world.decide()
    world.submit(*(a_job(f"a{number}", 1, group="a", at=10 + number) for number in range(3)))
    world.wait(299)
    assert asked_to_leave(world.decide()) == []  # not before they have run for min_run_s
    world.wait(1)
    plan = world.decide()
    assert asked_to_leave(plan) == ["b0", "b1"]
    assert {one.cause for one in plan.preemptions} == {Cause.PREEMPTED}
    world.wait(30)
    assert started(world.decide()) == ["a0", "a1"]
    for _ in range(5):
        world.wait(600)
        assert asked_to_leave(world.decide()) == []


def test_no_victim_for_a_request_that_its_quota_stops() -> None:
    scope = replace(a_scope("s", group="a", pool="pool", gpu_milli=0), guaranteed_milli=2_000)
    world = one_pool(a_job("b", 2, group="b"), scopes=(scope,))
    world.decide()
    world.submit(a_job("a", 1, group="a"))
    world.wait(HOUR_S)
    assert asked_to_leave(world.decide()) == []


# --- priority --------------------------------------------------------------------------------------


def test_priority_only_orders_unless_the_pool_says_otherwise() -> None:
    for gap, victims in ((None, []), (0, ["low"]), (50, ["low"]), (51, [])):
        world = one_pool(a_job("low", 2, priority=40), pool=replace(a_pool(), priority_gap=gap))
        world.decide()
        world.submit(a_job("high", 1, priority=90, at=MONDAY_US))
        world.wait(300)
        assert asked_to_leave(world.decide()) == victims


def test_never_more_victims_than_needed_and_the_cheapest_first() -> None:
    pool = replace(a_pool(), priority_gap=10)
    jobs = [a_job(f"j{number}", 1, priority=40 + number % 2, at=number) for number in range(4)]
    world = one_pool(*jobs, gpus=4, pool=pool)
    world.decide()
    world.wait(HOUR_S)
    world.submit(a_job("high", 2, priority=90))
    assert sorted(asked_to_leave(world.decide())) == ["j0", "j2"]
    world.wait(30)
    assert started(world.decide()) == ["high"]


@pytest.mark.parametrize("fields", [{"kind": Kind.ENVIRONMENT}, {"preemptible": False}])
def test_environments_and_what_is_not_preemptible_are_never_asked(fields: dict[str, Any]) -> None:
    world = one_pool(replace(a_job("low", 2, priority=1), **fields), pool=replace(a_pool(), priority_gap=0))
    world.decide()
    world.wait(HOUR_S)
    world.submit(a_job("high", 1, priority=100))
    assert asked_to_leave(world.decide()) == []


def test_a_gang_leaves_as_a_whole() -> None:
    nodes = [a_node("n1", gpus=1), a_node("n2", gpus=1)]
    pool = replace(a_pool(), priority_gap=0)
    world = World(a_snapshot(nodes, [a_job("gang", 1, tasks=2, priority=1)], pools=[pool]))
    world.decide()
    world.wait(HOUR_S)
    world.submit(a_job("high", 1, priority=100), a_job("other", 1, priority=0))
    assert asked_to_leave(world.decide()) == ["gang"]
    world.wait(30)
    assert started(world.decide()) == ["high", "other"]


# --- reservations ----------------------------------------------------------------------------------


def eight_cards(*pending: Request) -> World:
    return one_pool(*pending, gpus=8)


def a_stream(world: World, name: str, limit_s: int | None) -> None:
    job = a_job(name, 1, at=world.snapshot.now_us)
    world.submit(replace(job, time_limit_s=limit_s))


def test_the_first_blocked_job_keeps_its_room_and_shorter_work_backfills() -> None:
    world = eight_cards(*(replace(a_job(f"j{n}", 1, at=n), time_limit_s=HOUR_S) for n in range(6)))
    world.decide()
    world.wait(600)
    world.submit(a_job("big", 8, at=10))
    world.submit(*(replace(a_job(f"s{n}", 1, at=20 + n), time_limit_s=limit) for n, limit in enumerate((3000, 3001))))
    plan = world.decide()
    assert [(one.request_id, one.node_ids, one.starts_at_us) for one in plan.reservations] == [
        ("big", ("n1",), MONDAY_US + HOUR_S * SECOND_US)
    ]
    assert started(plan) == ["s0"]
    reason = reasons_of(plan, "s1")["reserved_for_other"]
    assert reason == {"workload": "big", "starts_at_us": MONDAY_US + HOUR_S * SECOND_US}
    world.wait(3000)
    assert started(world.decide()) == ["big"]


def test_what_the_reservation_does_not_need_is_free_to_all() -> None:
    world = one_pool(replace(a_job("j", 4), time_limit_s=HOUR_S), gpus=8)
    world.decide()
    world.submit(a_job("big", 6, at=1), a_job("endless", 1, at=2), a_job("more", 2, at=3))
    plan = world.decide()
    assert started(plan) == ["endless"]  # 8 - 6 = 2 cards stay for others; one more than that would delay it
    assert "reserved_for_other" in reasons_of(plan, "more")


@pytest.mark.parametrize("priority", [50, 60])
def test_a_large_job_under_a_stream_of_small_ones_starts_by_its_estimate_b012(priority: int) -> None:
    """One node of 8 cards, kept full by 60-s jobs that arrive every 7 s."""
    world = eight_cards()
    promised_us = None
    for number in range(200):
        a_stream(world, f"s{number:03}", 60)
        if number == 20:
            world.submit(a_job("big", 8, at=world.snapshot.now_us, priority=priority))
        plan = world.decide()
        for reservation in plan.reservations:
            if reservation.request_id == "big":
                promised_us = promised_us or reservation.starts_at_us
        if "big" in started(plan):
            break
        world.wait(7)
    assert promised_us is not None
    assert world.started_at_us["big"] <= promised_us + 7 * SECOND_US
    assert world.preempted == []


def test_under_work_without_time_limits_it_asks_after_ten_minutes_b012() -> None:
    world = eight_cards(*(a_job(f"j{number}", 1, at=number) for number in range(8)))
    world.decide()
    world.submit(a_job("big", 8, at=MONDAY_US))
    world.wait(599)
    assert world.decide().preemptions == ()
    world.wait(1)
    assert world.decide().preemptions == ()  # they came first
    late = eight_cards(*(a_job(f"j{number}", 1, at=MONDAY_US + 1) for number in range(8)))
    late.decide()
    late.submit(a_job("big", 8, at=MONDAY_US))
    late.wait(599)
    assert late.decide().preemptions == ()
    late.wait(1)
    assert len(late.decide().preemptions) == 8
    late.wait(30)
    assert started(late.decide()) == ["big"]


def test_patience_asks_nobody_in_vain() -> None:
    """Four cards are held by work that may not be asked: eight never come free."""
    fixed = replace(a_job("fixed", 4, at=MONDAY_US), preemptible=False)
    world = eight_cards(fixed, *(a_job(f"j{number}", 1, at=MONDAY_US + 1) for number in range(4)))
    world.decide()
    world.submit(a_job("big", 8, at=MONDAY_US))
    world.wait(HOUR_S)
    plan = world.decide()
    assert (plan.preemptions, plan.reservations) == ((), ())


def test_without_knowledge_of_what_runs_nothing_is_reserved() -> None:
    world = eight_cards(a_job("j", 7))
    world.decide()
    world.snapshot = replace(world.snapshot, running=())
    world.submit(a_job("big", 8, at=1), a_job("small", 1, at=2))
    plan = world.decide()
    assert (started(plan), plan.reservations) == (["small"], ())


def test_a_promised_job_keeps_its_turn_when_shares_change() -> None:
    world = eight_cards(replace(a_job("j", 8, group="a"), time_limit_s=HOUR_S))
    world.decide()
    world.submit(a_job("big", 8, group="a", at=1))
    assert world.decide().reservations[0].request_id == "big"
    world.submit(a_job("other", 8, group="b", at=2))  # its group used nothing
    world.wait(HOUR_S)
    assert started(world.decide()) == ["big"]


def test_work_that_leaves_by_itself_is_claimed_by_the_first_that_it_helps() -> None:
    world = eight_cards(a_job("j", 5))
    world.decide()
    world.snapshot = replace(
        world.snapshot, running=tuple(replace(work, is_leaving=True) for work in world.snapshot.running)
    )
    world.submit(a_job("big", 8, at=1), a_job("small", 1, at=2))
    plan = decide(world.snapshot)
    assert (started(plan), plan.preemptions) == ([], ())
    assert reasons_of(plan, "small") == {"reserved_for_other": {"workload": "big"}}
    assert node_of(plan, "small") is None
