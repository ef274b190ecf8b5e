"""Placement that knows the usual mix: never wrong, and better than what does not know it."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.capacity import Ask, NodeRoom, PoolRoom
from scheduler.decide import decide
from scheduler.filters import fitting_cards, room_on
from scheduler.mix import ENOUGH, observe
from scheduler.model import Mix, Node, Placement, Pool, Resources, Strategy, TaskPlacement
from scheduler.search import Search
from tests.scheduler.builders import (
    T4_MIB,
    V100_MIB,
    a_device,
    a_job,
    a_node,
    a_pool,
    a_snapshot,
    after,
    node_of,
    some_resources,
)

MANY = ENOUGH  # submissions that make a mix say something
NEEDS = [
    some_resources(cpu=2_000),
    some_resources(1, cpu=2_000, milli=470),
    some_resources(1, cpu=1_000, milli=320),
    some_resources(1, cpu=6_000, milli=810),
    some_resources(1, cpu=4_000),
    some_resources(1, cpu=4_000, model="T4"),
    some_resources(2, cpu=9_000),
    some_resources(2, cpu=3_000, mib=5_000),
    some_resources(4, cpu=16_000),
]


def a_mix(*needs: tuple[Resources, int], ended: int = 0) -> Mix:
    return observe(Mix("pool"), needs, ended=ended)


def some_nodes(rng: Random, count: int) -> list[Node]:
    kinds = ((8, 96_000, "V100-32GB", V100_MIB), (2, 26_000, "T4", T4_MIB), (4, 40_000, "V100-32GB", V100_MIB))
    nodes = []
    for number in range(count):
        gpus, cpu, model, mib = rng.choice(kinds)
        nodes.append(a_node(f"n{number:03}", gpus=gpus, cpu=cpu, model=model, memory_mib=mib))
    return nodes


mixes = st.lists(st.tuples(st.sampled_from(NEEDS), st.integers(30, 400)), max_size=9)


@settings(max_examples=60, deadline=None)
@given(mixes, st.sampled_from([0, 10_000]), st.sampled_from([0, 8]), st.randoms(use_true_random=False))
def test_a_task_is_refused_only_where_no_node_holds_it_and_nothing_is_given_twice(
    learned: list[tuple[Resources, int]], ended: int, slices: int, rng: Random
) -> None:
    """Whatever the mix says, and while tasks also end."""
    room = PoolRoom(a_pool(slices=slices), some_nodes(rng, 3), a_mix(*learned, ended=ended))
    searches: dict[Resources, tuple[Ask, Search]] = {}
    running: list[tuple[Ask, TaskPlacement]] = []
    for _ in range(60):
        needs = rng.choice(NEEDS)
        if needs not in searches:
            asked = room.ask(needs, 1)
            searches[needs] = asked, Search(room, asked)
        ask, search = searches[needs]
        could = any(room_on(ask, node) for node in room.nodes)
        placed = search.place()
        assert (placed is not None) == could
        for task in placed or ():
            running.append((ask, task))
        for node in room.nodes:
            assert min(node.free_cpu_milli, node.free_memory_mib, node.free_milli) >= 0
            assert all(min(card.free_milli, card.free_memory_mib) >= 0 for card in node.cards)
        if running and rng.random() < 0.3:
            given_back, task = running.pop(rng.randrange(len(running)))
            index = next(index for index, node in enumerate(room.nodes) if node.id == task.node_id)
            room.release(index, given_back, task.shares)
    for ask, task in running:
        index = next(index for index, node in enumerate(room.nodes) if node.id == task.node_id)
        room.release(index, ask, task.shares)
    for node in room.nodes:
        assert all(card.free_milli == 1000 and card.free_memory_mib == card.memory_mib for card in node.cards)


@settings(max_examples=40, deadline=None)
@given(mixes, st.sampled_from([0, 10_000]), st.randoms(use_true_random=False))
def test_neither_the_order_of_rows_nor_what_a_search_remembers_changes_a_place(
    learned: list[tuple[Resources, int]], ended: int, rng: Random
) -> None:
    mix = a_mix(*learned, ended=ended)
    jobs = [
        replace(a_job(f"j{number:02}", at=number), resources=rng.choice(NEEDS), tasks=rng.choice([1, 1, 1, 2]))
        for number in range(25)
    ]
    pools = [a_pool(slices=0)]
    snapshot = replace(a_snapshot(some_nodes(rng, 4), jobs, pools=pools), mixes=(mix,))
    plan = decide(snapshot)
    shuffled_mix = replace(mix, demands=tuple(rng.sample(mix.demands, len(mix.demands))))
    nodes = [
        replace(node, devices=tuple(rng.sample(node.devices, len(node.devices)))) for node in reversed(snapshot.nodes)
    ]
    again = replace(snapshot, nodes=tuple(nodes), pending=tuple(reversed(jobs)), mixes=(shuffled_mix,))
    assert decide(again).placements == plan.placements

    one_by_one = replace(snapshot, pending=())
    places: list[Placement] = []
    for job in jobs:
        step = replace(one_by_one, pending=(job,))
        places += decide(step).placements
        one_by_one = replace(after(step, decide(step)), pending=())
    assert places == list(plan.placements)


def test_a_share_goes_where_its_partner_still_fits() -> None:
    """By size alone 200 belongs on the card with 330 left; but 320 are asked all the time, and 250 never fill up."""
    cards = [
        replace(a_device("a"), free_milli=330, free_memory_mib=V100_MIB * 330 // 1000),
        replace(a_device("b"), free_milli=450, free_memory_mib=V100_MIB * 450 // 1000),
    ]
    needs = some_resources(1, milli=130)
    mix = a_mix((some_resources(1, milli=320), MANY), (needs, 50), (some_resources(1, milli=680), 100))
    snapshot = a_snapshot([a_node("n1", devices=cards)], [a_job(gpus=1, milli=130)], pools=[a_pool(slices=0)])
    assert decide(snapshot).placements[0].tasks[0].shares[0].device_id == "a"
    assert decide(replace(snapshot, mixes=(mix,))).placements[0].tasks[0].shares[0].device_id == "b"


def test_cards_of_a_model_that_some_need_are_kept_from_those_who_can_do_without() -> None:
    nodes = [a_node("n1", gpus=2, model="T4", memory_mib=T4_MIB), a_node("n2", gpus=8)]
    mix = a_mix((some_resources(1, model="T4"), MANY), (some_resources(1), MANY))
    snapshot = a_snapshot(nodes, [a_job(gpus=1)], pools=[a_pool(slices=0)])
    assert node_of(decide(snapshot), "j1") == "n1"
    assert node_of(decide(replace(snapshot, mixes=(mix,))), "j1") == "n2"


def test_a_node_that_could_host_many_cards_is_kept_whole_while_such_work_is_usual() -> None:
    nodes = [a_node("n1", gpus=8), a_node("n2", devices=[a_device(f"b{card}") for card in range(8)])]
    used = replace(nodes[1], devices=(a_device("b0", is_whole_taken=True), *nodes[1].devices[1:]))
    mix = a_mix((some_resources(8), MANY), (some_resources(1), MANY))
    snapshot = replace(a_snapshot([nodes[0], used], [a_job(gpus=1)], pools=[a_pool(slices=0)]), mixes=(mix,))
    assert node_of(decide(snapshot), "j1") == "n2"


def test_work_that_needs_much_cpu_for_a_card_goes_where_cpu_is_plenty() -> None:
    nodes = [a_node("n1", gpus=2, cpu=16_000), a_node("n2", gpus=2, cpu=64_000)]
    snapshot = a_snapshot(nodes, [a_job(gpus=1, cpu=14_000)], pools=[a_pool(slices=0)])
    assert node_of(decide(snapshot), "j1") == "n2"


def test_slices_fill_the_fullest_card_whatever_the_mix() -> None:
    """B008: a cut pool's slices are all alike, so cards come free as wholes."""
    cards = [a_device("a", used_slices=1), a_device("b", used_slices=6), a_device("c")]
    for ended in (0, 10_000):
        mix = a_mix((some_resources(1, slices=1), MANY), (some_resources(1), MANY), ended=ended)
        snapshot = a_snapshot([a_node("n1", devices=cards)], [a_job(gpus=1, slices=1)])
        plan = decide(replace(snapshot, mixes=(mix,)))
        assert plan.placements[0].tasks[0].shares[0].device_id == "b"


def test_cards_that_nothing_usual_can_use_are_worth_their_size() -> None:
    nodes = [a_node("n1", gpus=2, model="T4", memory_mib=T4_MIB), a_node("n2", gpus=2)]
    mix = a_mix((some_resources(1, model="T4", milli=300), MANY))
    jobs = [a_job("whole", 1, at=1), a_job("share", 1, milli=300, at=2), a_job("other", 2, model="V100", at=3)]
    plan = decide(replace(a_snapshot(nodes, jobs, pools=[a_pool(slices=0)]), mixes=(mix,)))
    assert len(plan.placements) + len(plan.waiting) == 3


def test_a_mix_that_says_little_changes_nothing() -> None:
    rng = Random(5)
    jobs = [replace(a_job(f"j{number:02}", at=number), resources=rng.choice(NEEDS)) for number in range(30)]
    snapshot = a_snapshot(some_nodes(rng, 4), jobs, pools=[a_pool(slices=0)])
    assert decide(replace(snapshot, mixes=(a_mix((NEEDS[1], 20)),))) == decide(snapshot)


@pytest.mark.parametrize("ended", [0, 10_000])
def test_spreading_does_not_look_at_the_mix(ended: int) -> None:
    rng = Random(6)
    jobs = [replace(a_job(f"j{number:02}", at=number), resources=rng.choice(NEEDS)) for number in range(30)]
    pools = [a_pool(slices=0, strategy=Strategy.SPREAD)]
    snapshot = a_snapshot(some_nodes(rng, 4), jobs, pools=pools)
    mix = a_mix(*((needs, MANY) for needs in NEEDS), ended=ended)
    assert decide(replace(snapshot, mixes=(mix,))) == decide(snapshot)


# --- quality -----------------------------------------------------------------------------------------

USUAL = [  # needs, and how often of 100
    (some_resources(cpu=8_000), 8),
    (some_resources(1, cpu=4_000, milli=470), 12),
    (some_resources(1, cpu=3_000, milli=320), 8),
    (some_resources(1, cpu=6_000, milli=810), 16),
    (some_resources(1, cpu=8_000, milli=220), 6),
    (some_resources(1, cpu=9_000), 34),
    (some_resources(1, cpu=24_000), 6),
    (some_resources(2, cpu=16_000), 5),
    (some_resources(8, cpu=64_000), 5),
]


@pytest.mark.slow
def test_more_is_given_away_than_by_fragmentation_gradient_descent() -> None:
    """Share of the cards given away when 130 % of them have been asked for; the mean of four clusters."""
    learned, descended = [], []
    for seed in range(4):
        rng = Random(seed)
        nodes = [replace(node, id=f"n{place:03}") for place, node in enumerate(some_nodes(rng, 50))]
        cards = sum(len(node.devices) for node in nodes)
        arrivals: list[Resources] = []
        while sum(map(card_milli, arrivals)) < 1_300 * cards:
            arrivals += rng.choices([needs for needs, _ in USUAL], [often for _, often in USUAL])
        learned.append(fill(nodes, arrivals, a_mix(*((needs, 30 * often) for needs, often in USUAL))) / cards)
        descended.append(Descent(a_pool(slices=0), nodes).fill(arrivals) / cards)
    assert sum(learned) / 4 >= sum(descended) / 4 + 10  # in milli of all cards


def card_milli(needs: Resources) -> int:
    return needs.gpus * (needs.gpu_compute_milli or 1000)


def fill(nodes: list[Node], arrivals: list[Resources], mix: Mix) -> int:
    """Milli given away."""
    room = PoolRoom(a_pool(slices=0), nodes, mix)
    searches: dict[Resources, Search] = {}
    total = 0
    for needs in arrivals:
        search = searches.setdefault(needs, Search(room, room.ask(needs, 1)))
        total += card_milli(needs) if search.place() is not None else 0
    return total


class Descent:
    """Fragmentation gradient descent as the paper has it (Weng et al., USENIX ATC 2023), the plain way: to the node and
    card where the milli that the mean task of the mix cannot use grow least."""

    def __init__(self, pool: Pool, nodes: list[Node]) -> None:
        self.room = PoolRoom(pool, nodes)
        self._asks = [(self.room.ask(needs, 1), often) for needs, often in USUAL]
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}

    def fill(self, arrivals: list[Resources]) -> int:
        total = 0
        for needs in arrivals:
            ask = self.room.ask(needs, 1)
            best = min(
                ((self._growth(ask, node, taken), index, taken) for index, node, taken in self._places(ask)),
                default=None,
            )
            if best is not None:
                node = self.room.nodes[best[1]]
                self.room.place(best[1], ask, [[node.cards[place] for place in best[2]]], first_rank=0)
                total += card_milli(needs)
        return total

    def _places(self, ask: Ask) -> Iterator[tuple[int, NodeRoom, tuple[int, ...]]]:
        for index, node in enumerate(self.room.nodes):
            if room_on(ask, node):
                fitting = [node.cards.index(card) for card in fitting_cards(ask, node, node.cards)] if ask.gpus else []
                if ask.gpus == 1:
                    yield from ((index, node, (place,)) for place in fitting)
                else:
                    yield index, node, tuple(fitting[: ask.gpus])

    def _growth(self, ask: Ask, node: NodeRoom, taken: tuple[int, ...]) -> int:
        free = [card.free_milli for card in node.cards]
        left = list(free)
        for place in taken:
            left[place] -= (ask.takes[node.cards[place].kind] or (0,))[0]
        return self._lost(node.free_cpu_milli - ask.cpu_milli, left) - self._lost(node.free_cpu_milli, free)

    def _lost(self, cpu_milli: int, free: list[int]) -> int:
        key = cpu_milli, tuple(sorted(free))
        if key not in self._known:
            lost = 0
            for ask, often in self._asks:
                usable = [milli for milli in free if ask.gpus and milli >= ask.least_milli]
                fits = cpu_milli >= ask.cpu_milli and len(usable) >= max(1, ask.gpus)
                lost += often * (sum(free) - (sum(usable) if fits else 0))
            self._known[key] = lost
        return self._known[key]


def test_needs_that_one_kind_of_card_does_not_suit_are_priced_on_the_others() -> None:
    """A share of nothing can be added for ever."""
    nodes = [
        a_node("n1", gpus=2, cpu=32_000, model="A100-80GB", memory_mib=81_920),
        a_node("n2", gpus=2, cpu=32_000, model="T4-16GB", memory_mib=15_360),
    ]
    wanted = Resources(1000, 1024, gpus=1, gpu_model="A100-80GB")
    large = Resources(1000, 1024, gpus=1, gpu_memory_mib=40_960)
    for learned in ((wanted, 200), (large, 200)):
        room = PoolRoom(a_pool(slices=0), nodes, a_mix(learned, ended=10_000))
        assert room.forecast is not None
        ask = room.ask(learned[0], 1)
        (task,) = Search(room, ask).place() or ()
        assert task.node_id == "n1"
