"""When those that wait are told that they may start."""

from dataclasses import replace

from scheduler.decide import decide
from scheduler.fairness import SECOND_US
from scheduler.model import Kind, Plan, Request, Scope
from tests.scheduler.builders import a_job, a_node, a_scope, a_snapshot
from tests.scheduler.world import World

HOUR_US = 3_600 * SECOND_US
NOW_US = 1_772_409_600 * SECOND_US


def hours(name: str, gpus: int, limit_h: int | None, at: int = 0) -> Request:
    return replace(a_job(name, gpus, at=NOW_US + at), time_limit_s=None if limit_h is None else limit_h * 3_600)


def a_world(*running: Request, scopes: tuple[Scope, ...] = ()) -> World:
    """A node of four cards on which these run."""
    world = World(replace(a_snapshot([a_node(gpus=4)], running, scopes=scopes), now_us=NOW_US))
    assert len(world.decide().placements) == len(running)
    return world


def starts(plan: Plan) -> dict[str, tuple[float | None, float | None]]:
    """Hours from now, earliest and latest."""

    def from_now(at_us: int | None) -> float | None:
        return None if at_us is None else (at_us - NOW_US) / HOUR_US

    return {one.request_id: (from_now(one.earliest_us), from_now(one.latest_us)) for one in plan.waiting}


def test_the_first_knows_its_start_and_those_behind_a_range() -> None:
    world = a_world(*(hours(f"r{number}", 1, number) for number in (1, 2, 3, 4)))
    world.submit(hours("big", 3, 10, at=1), hours("next", 1, 2, at=2), hours("last", 2, 1, at=3))
    assert starts(world.decide()) == {"big": (3, 3), "next": (1, 4), "last": (2, 13)}


def test_what_waits_for_work_without_a_limit_cannot_be_told() -> None:
    world = a_world(hours("endless", 2, None), hours("r", 2, 5))
    world.submit(hours("all", 4, 1, at=1), hours("two", 2, 1, at=2))
    assert starts(world.decide()) == {"all": (None, None), "two": (5, 5)}


def test_quotas_and_holds_cannot_be_told_and_claims_start_soon() -> None:
    world = a_world(hours("r", 4, 5), scopes=(a_scope("s", group="poor", gpu_milli=0),))
    world.snapshot = replace(
        world.snapshot, running=tuple(replace(work, is_leaving=True) for work in world.snapshot.running)
    )
    world.submit(
        hours("claims", 4, 1, at=1),
        replace(hours("poor", 1, 1, at=2), group_id="poor"),
        replace(hours("held", 1, 1, at=3), held=True),
        hours("behind", 1, 1, at=4),
    )
    assert starts(world.decide()) == {"claims": (0, None), "poor": (None, None), "held": (None, None), "behind": (1, 1)}


def test_nothing_is_worked_out_that_nobody_wants() -> None:
    world = a_world(hours("r", 4, 5))
    world.submit(hours("j", 4, 1, at=1), replace(hours("env", 1, None), kind=Kind.ENVIRONMENT))
    world.snapshot = replace(world.snapshot, with_estimates=False)
    assert starts(decide(world.snapshot)) == {"j": (None, None), "env": (None, None)}
