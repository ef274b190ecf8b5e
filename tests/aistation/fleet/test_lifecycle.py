"""Silence, judged purely."""

from aistation.fleet.lifecycle import Verdict, Watched, judge_silence


def judge(*nodes: tuple[str, int], in_grace: bool = False, freeze_is_over: bool = False) -> Verdict:
    watched = [Watched(index, liveness, silent) for index, (liveness, silent) in enumerate(nodes)]
    return judge_silence(watched, suspect_s=15, lost_s=60, in_grace=in_grace, freeze_is_over=freeze_is_over)


def test_a_beating_node_is_left_alone() -> None:
    assert judge(("ready", 0), ("ready", 14)) == Verdict()


def test_a_node_is_suspect_from_15_seconds_and_lost_from_60() -> None:
    assert judge(("ready", 15), ("ready", 0)).suspect == (0,)
    assert judge(("suspect", 59), ("ready", 0)) == Verdict()
    assert judge(("suspect", 60), ("ready", 0)).lost == (0,)
    assert judge(("ready", 60), ("ready", 0)) == Verdict(lost=(0,))


def test_a_lost_node_is_not_lost_again() -> None:
    assert judge(("lost", 1_000), ("ready", 0)) == Verdict()


def test_the_only_node_is_lost_like_any_other() -> None:
    assert judge(("suspect", 60)).lost == (0,)


def test_half_of_the_fleet_may_be_lost() -> None:
    assert judge(("suspect", 60), ("ready", 0)).lost == (0,)
    assert judge(*[("suspect", 60)] * 2, *[("ready", 0)] * 2).lost == (0, 1)


def test_more_than_half_silent_at_once_freezes() -> None:
    """R5"""
    verdict = judge(("suspect", 70), ("suspect", 61), ("suspect", 59), ("ready", 0))
    assert verdict.frozen
    assert verdict.lost == ()


def test_nodes_that_fall_silent_one_after_the_other_count_together() -> None:
    """R5: the first to pass 60 seconds is not lost while the others are a heartbeat behind."""
    assert judge(("suspect", 60), ("suspect", 57), ("suspect", 56)).lost == ()


def test_nodes_lost_before_do_not_count() -> None:
    assert judge(("lost", 999), ("lost", 999), ("suspect", 60), ("ready", 0)).lost == (2,)


def test_a_frozen_fleet_still_gets_suspects() -> None:
    assert judge(("ready", 60), ("suspect", 60), ("ready", 20)).suspect == (0, 2)


def test_a_freeze_ends_when_some_node_proves_that_heartbeats_arrive() -> None:
    some, none = [("suspect", 400), ("suspect", 400), ("ready", 0)], [("suspect", 400), ("suspect", 400)]
    assert judge(*some, freeze_is_over=True) == Verdict(lost=(0, 1))
    assert judge(*none, freeze_is_over=True).frozen
    assert judge(*none, freeze_is_over=True).lost == ()


def test_after_our_own_outage_nobody_is_lost() -> None:
    """R5"""
    verdict = judge(("suspect", 200), ("ready", 0), ("ready", 0), in_grace=True)
    assert verdict.lost == ()
    assert not judge(("ready", 0), ("ready", 0), in_grace=True).frozen
