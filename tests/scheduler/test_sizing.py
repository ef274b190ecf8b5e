from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Pool, Resources
from scheduler.sizing import (
    Grant,
    advertised_mib,
    card_equivalent_milli,
    grant,
    matches_model,
    nominal_slice_mib,
    slice_mib,
    slices_left,
)
from tests.scheduler.builders import SLICE_MIB, T4_MIB, V100_MIB, a_device, a_pool, some_resources

CARDS = st.sampled_from(
    [("V100-32GB", V100_MIB), ("T4", T4_MIB), ("A100-SXM4-80GB", 81_920), ("NVIDIA H200", 143_771), ("GTX", 700)]
)
CUT = st.builds(a_pool, slices=st.integers(1, 64), reserve=st.integers(0, 600))


@pytest.mark.parametrize(
    ("model", "reported", "gib"),
    [
        ("V100-32GB", 32_510, 32),
        ("Tesla V100-SXM2-32GB", 32_510, 32),
        ("NVIDIA A100 80GB PCIe", 81_920, 80),
        ("NVIDIA H200", 143_771, 141),
        ("NVIDIA GH200 480GB", 97_871, 96),  # 480 GB is the memory of its CPU
        ("Tesla T4", 15_360, 16),
        ("NVIDIA L40", 46_068, 48),
        ("NVIDIA H100 MIG 1g.10gb", 9_728, 10),
        ("future", 300_000, 304),
        ("unknown", 0, 0),
    ],
)
def test_a_card_is_known_by_the_size_in_its_name_or_the_next_usual_one(model: str, reported: int, gib: int) -> None:
    assert advertised_mib(model, reported) == gib * 1024


@given(CARDS)
def test_an_advertised_size_is_never_below_what_the_card_reports(card: tuple[str, int]) -> None:
    assert advertised_mib(*card) >= card[1]


def test_a_slice_of_a_v100_cut_in_eight_is_called_4096_and_holds_3999() -> None:
    assert nominal_slice_mib(a_pool(), "V100-32GB", V100_MIB) == 4096
    assert slice_mib(a_pool(), V100_MIB) == SLICE_MIB
    assert slice_mib(a_pool(slices=0), V100_MIB) == 0


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        ({"slices": 1}, Grant(3999, 125)),
        ({"slices": 3}, Grant(11_997, 375)),
        ({"slices": 8}, Grant(31_992, 1000)),
        ({"slices": 9}, None),
        ({"mib": 1}, Grant(3999, 125)),
        ({"mib": 4096}, Grant(3999, 125)),
        ({"mib": 4097}, Grant(7998, 250)),
        ({"mib": 32_768}, Grant(31_992, 1000)),
        ({"mib": 32_769}, None),
        ({"milli": 125}, Grant(3999, 125)),
        ({"milli": 126}, Grant(7998, 250)),
        ({"milli": 1001}, None),
        ({"mib": 4096, "milli": 500}, Grant(15_996, 500)),
        ({"slices": 2, "mib": 4096}, Grant(7998, 250)),
        ({"slices": 0}, None),
        ({"mib": -1}, None),
        ({}, Grant(V100_MIB, 1000, whole=True)),
        ({"model": "T4"}, None),
    ],
)
def test_a_cut_card_gives_whole_slices(asked: dict[str, int], granted: Grant | None) -> None:
    assert grant(some_resources(1, **asked), a_pool(), "V100-32GB", V100_MIB) == granted


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        ({"mib": 16_255}, Grant(16_255, 500)),
        ({"mib": V100_MIB}, Grant(V100_MIB, 1000)),
        ({"mib": V100_MIB + 1}, None),
        ({"mib": 1}, Grant(1, 1)),
        ({"mib": 1000, "milli": 700}, Grant(1000, 700)),
        ({"milli": 333}, Grant(10_825, 333)),
        ({"milli": 1001}, None),
        ({"slices": 1}, None),
        ({}, Grant(V100_MIB, 1000, whole=True)),
    ],
)
def test_an_uncut_card_gives_what_is_asked(asked: dict[str, int], granted: Grant | None) -> None:
    assert grant(some_resources(1, **asked), a_pool(slices=0), "V100-32GB", V100_MIB) == granted


@given(CUT, CARDS)
def test_all_slices_of_a_card_fit_on_it(pool: Pool, card: tuple[str, int]) -> None:
    one = grant(some_resources(1, slices=1), pool, *card)
    slices = pool.slices_per_gpu
    if one is not None:
        assert one.memory_mib * slices <= card[1]
        assert one.compute_milli * slices <= 1000
        every = grant(some_resources(1, slices=slices), pool, *card)
        assert every is not None
        assert every.memory_mib <= card[1]
        assert (every.compute_milli, every.whole) == (1000, False)


@given(st.one_of(CUT, st.just(a_pool(slices=0))), CARDS, st.data())
def test_who_asks_for_more_is_never_granted_less(pool: Pool, card: tuple[str, int], data: st.DataObject) -> None:
    fields = st.fixed_dictionaries(
        {"slices": st.none() | st.integers(1, 70), "mib": st.none() | st.integers(1, 90_000)},
        optional={"milli": st.integers(1, 1001)},
    )
    asked: dict[str, Any] = data.draw(fields)
    more: dict[str, Any] = {
        name: number and number + data.draw(st.integers(0, 5_000)) for name, number in asked.items()
    }
    small = grant(some_resources(1, **asked), pool, *card)
    large = grant(some_resources(1, **more), pool, *card)
    if large is not None and any(number is not None for number in asked.values()):
        assert small is not None
        assert small.memory_mib <= large.memory_mib
        assert small.compute_milli <= large.compute_milli


@given(CUT, st.lists(st.integers(1, 8), max_size=6), st.integers(1, 64))
def test_a_card_gives_exactly_the_slices_that_are_left(pool: Pool, taken: list[int], asked: int) -> None:
    free_mib, free_milli, kind = V100_MIB, 1000, ("V100-32GB", V100_MIB)
    for count in (min(number, pool.slices_per_gpu) for number in taken):
        part = grant(some_resources(1, slices=count), pool, *kind)
        if part and part.memory_mib <= free_mib and part.compute_milli <= free_milli:
            free_mib, free_milli = free_mib - part.memory_mib, free_milli - part.compute_milli
    more = grant(some_resources(1, slices=asked), pool, *kind)
    fits = more is not None and more.memory_mib <= free_mib and more.compute_milli <= free_milli
    assert fits == (asked <= slices_left(pool, V100_MIB, free_mib, free_milli))


@pytest.mark.parametrize(
    ("resources", "milli"),
    [
        (some_resources(0), 0),
        (some_resources(1), 1000),
        (some_resources(8), 8000),
        (some_resources(1, slices=1), 125),
        (some_resources(4, slices=2), 1000),
        (some_resources(1, slices=8), 1000),
        (some_resources(1, mib=4096), 125),
    ],
)
def test_a_card_costs_1000_and_its_slices_together_no_more(resources: Resources, milli: int) -> None:
    assert card_equivalent_milli(resources, a_pool(), [a_device("a"), a_device("b")]) == milli


def test_memory_is_charged_by_the_smallest_card_of_the_pool() -> None:
    cards = [a_device("a"), a_device("b", model="T4", memory_mib=T4_MIB)]
    assert card_equivalent_milli(some_resources(1, mib=7_680), a_pool(slices=0), cards) == 500
    # Of the V100, one slice of two is 15,999 MiB: more than all of the T4, but no more than a whole card.
    assert card_equivalent_milli(some_resources(1, slices=1, model="V100"), a_pool(slices=2), cards) == 1000


def test_a_request_that_several_models_serve_costs_what_the_cheapest_does() -> None:
    small, large = a_device("a", model="T4", memory_mib=T4_MIB), a_device("b")
    both = card_equivalent_milli(some_resources(1, slices=1), a_pool(), [large, small])
    assert both == card_equivalent_milli(some_resources(1, slices=1), a_pool(), [small]) == 125
    assert card_equivalent_milli(some_resources(1, slices=1, model="V100"), a_pool(), [large, small]) == 261


def test_a_share_that_no_card_can_give_still_has_a_charge() -> None:
    assert card_equivalent_milli(some_resources(2, mib=99_999), a_pool(), [a_device("a")]) == 2
    assert card_equivalent_milli(some_resources(2, slices=1), a_pool(), []) == 2
    assert card_equivalent_milli(some_resources(2), a_pool(), []) == 2000


@given(st.integers(1, 8), CARDS)
@settings(max_examples=50)
def test_slices_of_one_card_never_cost_more_than_the_card(slices: int, card: tuple[str, int]) -> None:
    device = a_device("a", model=card[0], memory_mib=card[1])
    one = card_equivalent_milli(some_resources(1, slices=1), a_pool(slices=slices), [device])
    assert one * slices <= 1000 + slices  # each is rounded up
    assert one >= 1000 // slices


@pytest.mark.parametrize(
    ("asked", "model", "matches"),
    [
        (None, "anything", True),
        ("V100-32GB", "V100-32GB", True),
        ("v100-32gb", "Tesla V100-SXM2-32GB", True),
        ("V100", "Tesla V100-SXM2-32GB", True),
        ("V100-16GB", "Tesla V100-SXM2-32GB", False),
        ("A100", "A1000", False),
        ("RTX 4090", "NVIDIA GeForce RTX 4090", True),
        ("T4|A100", "NVIDIA A100-SXM4-80GB", True),
        ("T4|", "NVIDIA A100-SXM4-80GB", False),
        ("", "T4", False),
        ("-", "T4", False),
    ],
)
def test_a_model_matches_when_every_word_asked_for_is_in_the_cards_name(
    asked: str | None, model: str, matches: bool
) -> None:
    assert matches_model(asked, model) is matches
