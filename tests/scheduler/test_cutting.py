"""What shares cost and remainders are worth, against other ways to work it out."""

from fractions import Fraction
from itertools import combinations_with_replacement

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cutting import CARD, reachable_sums, residue_values, share_prices


def patterns(sizes: list[int]) -> list[tuple[int, ...]]:
    """All multisets of sizes that fit on a card."""
    most = 1000 // min(sizes)
    found = (pattern for count in range(1, most + 1) for pattern in combinations_with_replacement(sizes, count))
    return [pattern for pattern in found if sum(pattern) <= 1000]


demands = st.dictionaries(st.integers(150, 999), st.integers(1, 500), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(60, 1000), min_size=1, max_size=5))
def test_the_sums_are_all_that_shares_can_fill(sizes: list[int]) -> None:
    reached = {0}
    while (more := reached | {one + size for one in reached for size in sizes if one + size <= 1000}) != reached:
        reached = more
    assert reachable_sums(sizes) == sorted(reached)


@settings(max_examples=60, deadline=None)
@given(demands)
def test_no_cards_worth_of_shares_costs_more_than_the_card(demand: dict[int, int]) -> None:
    prices = share_prices(demand)
    assert all(price >= 0 for price in prices.values())
    for pattern in patterns(sorted(demand)):
        assert sum(prices[size] for size in pattern) <= CARD


@settings(max_examples=60, deadline=None)
@given(demands)
def test_all_shares_cost_what_the_cards_that_they_need_cost(demand: dict[int, int]) -> None:
    """Between the bound by size, which no packing beats, and packing each size alone, which is one."""
    cost = Fraction(sum(share_prices(demand)[size] * count for size, count in demand.items()), CARD)
    by_size = Fraction(sum(size * count for size, count in demand.items()), 1000)
    alone = sum(Fraction(count, 1000 // size) for size, count in demand.items())
    slack = Fraction(sum(demand.values()), CARD)  # prices are rounded down
    assert by_size - slack <= cost <= alone


@pytest.mark.parametrize(
    ("demand", "prices"),
    [
        ({810: 5}, {810: CARD}),  # nothing fits beside it
        ({470: 5}, {470: CARD // 2}),
        ({125: 7}, {125: CARD // 8}),
        ({600: 1, 400: 9}, {600: CARD // 2, 400: CARD // 2}),  # most 400 are alone with another
        ({600: 9, 400: 1}, {600: CARD, 400: 0}),  # a 400 goes beside some 600 for nothing
    ],
)
def test_a_share_costs_what_fits_beside_it(demand: dict[int, int], prices: dict[int, int]) -> None:
    assert share_prices(demand) == prices


@settings(max_examples=40, deadline=None)
@given(demands, st.integers(0, 50), st.integers(1, 40))
def test_more_room_is_never_worth_less_and_patience_never_hurts(
    demand: dict[int, int], whole: int, patience: int
) -> None:
    offers = {**demand, 1000: whole} if whole else demand
    worth, longer = residue_values(offers, patience), residue_values(offers, patience + 1)
    assert len(worth) == 1001
    assert worth[0] == 0
    assert worth == sorted(worth)
    assert all(sooner <= later for sooner, later in zip(worth, longer, strict=True))
    assert longer[1000] <= CARD


def test_a_remainder_that_nothing_usual_fits_is_worth_nothing() -> None:
    worth = residue_values({470: 3, 1000: 1}, 64)
    assert worth[469] == 0
    assert worth[470] == worth[939] > worth[469]
    assert worth[940] == pytest.approx(2 * worth[470], rel=0.01)


def test_a_size_of_nothing_adds_nothing() -> None:
    assert reachable_sums([0]) == [0]
