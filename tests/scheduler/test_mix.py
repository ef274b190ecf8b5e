"""What a pool remembers of what has been asked of it."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.mix import HORIZON, ONE, next_refresh, observe
from scheduler.model import Mix, Resources
from scheduler.snapshot_json import dump, load
from tests.scheduler.builders import a_snapshot, some_resources

SHAPES = [some_resources(gpus, milli=milli) if gpus else some_resources() for gpus in (0, 1, 2) for milli in (200, 500)]


def weights(mix: Mix) -> dict[Resources, int]:
    return {demand.resources: demand.weight for demand in mix.demands}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SHAPES), st.integers(1, 5)), max_size=60), st.integers(0, 60))
def test_a_mix_within_its_memory_is_a_count_whatever_the_order_and_the_steps(
    submitted: list[tuple[Resources, int]], cut: int
) -> None:
    whole = observe(Mix("pool"), submitted)
    in_steps = observe(observe(Mix("pool"), submitted[:cut]), submitted[cut:])
    backwards = observe(Mix("pool"), reversed(submitted))
    counted: dict[Resources, int] = {}
    for needs, tasks in submitted:
        counted[needs] = counted.get(needs, 0) + tasks * ONE
    assert weights(whole) == weights(in_steps) == weights(backwards) == counted


def test_a_mix_never_outgrows_its_memory_and_steps_make_no_difference() -> None:
    many = [(SHAPES[number * number % 5], 1 + number % 90) for number in range(6_000)]
    mix = observe(Mix("pool"), many)
    assert HORIZON // 4 <= sum(weights(mix).values()) <= HORIZON
    assert all(weight > 0 for weight in weights(mix).values())
    in_steps = Mix("pool")
    for at in range(0, len(many), 7):
        in_steps = observe(in_steps, many[at : at + 7])
        assert sum(weights(in_steps).values()) <= HORIZON
    assert weights(in_steps) == weights(mix)


def test_what_is_no_longer_asked_fades_and_is_forgotten() -> None:
    old, new = SHAPES[2], SHAPES[4]
    mix = observe(Mix("pool"), [(old, 100)])
    shares = []
    while old in weights(mix):
        mix = observe(mix, [(new, 8_192)])
        shares.append(weights(mix).get(old, 0))
        assert len(shares) < 50
    assert shares == sorted(shares, reverse=True)


def test_what_has_ended_is_counted_in_the_same_unit_and_fades_as_well() -> None:
    mix = observe(Mix("pool"), [(SHAPES[2], 10)], ended=4)
    assert mix.ended == 4 * ONE
    for _ in range(8):
        mix = observe(mix, [(SHAPES[2], HORIZON // ONE // 2)])
    assert mix.ended < ONE


def test_a_new_mix_is_due_ever_more_seldom() -> None:
    due = [next_refresh(0)]
    while due[-1] < 100_000:
        due.append(next_refresh(due[-1]))
    assert due[0] >= 100
    assert len(due) < 20
    assert all(later - sooner >= 100 for sooner, later in pairwise(due))


def test_a_snapshot_keeps_its_mixes_when_it_is_written_down() -> None:
    snapshot = replace(a_snapshot(), mixes=(observe(Mix("pool"), [(SHAPES[2], 3), (SHAPES[0], 1)], ended=2),))
    assert load(dump(snapshot)) == snapshot
