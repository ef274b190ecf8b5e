"""Usage that fades: exact halves, no dependence on how often it is brought up to date, integers only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.fairness import HALF_LIFE_S, SECOND_US, accrued, decayed, dominant_milli

HALF_LIFE_US = HALF_LIFE_S * SECOND_US


@pytest.mark.parametrize(
    ("elapsed_us", "left"),
    [(0, 10**12), (-5, 10**12), (HALF_LIFE_US, 5 * 10**11), (3 * HALF_LIFE_US, 125 * 10**9), (200 * HALF_LIFE_US, 0)],
)
def test_usage_halves_with_each_half_life_and_never_rises(elapsed_us: int, left: int) -> None:
    assert decayed(10**12, elapsed_us) == left


def test_half_of_a_half_life_leaves_the_square_root_of_a_half() -> None:
    assert decayed(10**12, HALF_LIFE_US // 2) == 707_106_781_186


def test_a_card_held_for_ever_comes_to_its_rate_times_the_mean_life() -> None:
    assert accrued(0, 1_000, 100 * HALF_LIFE_US) == 249_297_703  # 172,800 s * 1000 / ln 2 = 249,297,703.1
    assert accrued(249_297_703, 1_000, HALF_LIFE_US) in range(249_297_702, 249_297_704)


@given(
    usage=st.integers(0, 10**12),
    milli=st.integers(0, 10**6),
    steps=st.lists(st.integers(0, 10**10), min_size=1, max_size=50),
)
def test_many_steps_differ_from_one_by_less_than_two_units_each(usage: int, milli: int, steps: list[int]) -> None:
    stepped = usage
    for step in steps:
        stepped = accrued(stepped, milli, step)
    at_once = accrued(usage, milli, sum(steps))
    assert abs(at_once - stepped) <= 2 * len(steps)


def test_usage_kept_by_the_hour_comes_to_rest() -> None:
    """One card for three months, hour by hour: level, and near the exact sum."""
    usage = 0
    for _ in range(2_200):
        usage = accrued(usage, 1_000, 3_600 * SECOND_US)
    level = usage
    for _ in range(1_000):
        usage = accrued(usage, 1_000, 3_600 * SECOND_US)
    assert usage == level
    assert 249_297_703 - usage < 3 * HALF_LIFE_S // 3_600


def test_the_largest_share_of_cards_cpu_and_memory_counts() -> None:
    totals = (8_000, 48_000, 400_000)
    assert dominant_milli(1_000, 3_000, 1_000, totals) == 1_000
    assert dominant_milli(1_000, 24_000, 1_000, totals) == 4_000
    assert dominant_milli(0, 1, 100_001, totals) == 2_001
    assert dominant_milli(0, 500, 0, (0, 48_000, 0)) == 500
