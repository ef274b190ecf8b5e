"""How many tasks fit, against trying every way to deal the cards."""

from functools import cache
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.capacity import PoolRoom
from scheduler.filters import deal_cards, fitting_cards, shares_on, tasks_on
from scheduler.model import Strategy
from scheduler.scoring import rank_packed, rank_spread
from tests.scheduler.builders import a_device, a_node, a_pool, some_resources


@cache
def most_tasks(rooms: tuple[int, ...], gpus: int) -> int:
    """The most tasks of ``gpus`` shares on different cards, by trying all choices of cards one task at a time."""
    best = 0
    for chosen in combinations([place for place, room in enumerate(rooms) if room], gpus):
        left = tuple(sorted(room - (place in chosen) for place, room in enumerate(rooms)))
        best = max(best, 1 + most_tasks(left, gpus))
    return best


@given(
    used=st.lists(st.integers(0, 4), max_size=4),
    gpus=st.integers(1, 3),
    tasks=st.integers(1, 9),
    strategy=st.sampled_from(Strategy),
)
@settings(max_examples=80)
def test_as_many_tasks_fit_as_the_best_deal_of_cards_allows(
    used: list[int], gpus: int, tasks: int, strategy: Strategy
) -> None:
    pool = a_pool(slices=4)
    devices = [a_device(f"gpu{place}", used_slices=count, pool=pool) for place, count in enumerate(used)]
    room = PoolRoom(pool, [a_node(devices=devices)])
    node = room.nodes[0]
    ask = room.ask(some_resources(gpus, slices=1), tasks)
    fitting = fitting_cards(ask, node, node.cards)

    held = tasks_on(ask, node, fitting)

    assert held == min(tasks, most_tasks(tuple(sorted(4 - count for count in used)), gpus))
    packed = rank_packed(room.outlook(), ask, room.node_state(0), fitting)
    ranked = packed if strategy is Strategy.PACK else rank_spread(fitting)
    for stack in (True, False):
        hands = deal_cards(ask, ranked, held, stack=stack)
        assert [len({card.id for card in hand}) for hand in hands] == [gpus] * held
        for card in fitting:
            assert sum(card in hand for hand in hands) <= shares_on(ask, card)


def test_a_node_never_holds_more_tasks_than_its_cpu_and_memory_allow() -> None:
    room = PoolRoom(a_pool(), [a_node(gpus=8, free_cpu=3_500, free_memory=2_047)])
    node = room.nodes[0]
    by_memory = room.ask(some_resources(1, cpu=1_000, memory=1_024), 8)
    by_cpu = room.ask(some_resources(1, cpu=1_000, memory=1), 8)
    assert tasks_on(by_memory, node, fitting_cards(by_memory, node, node.cards)) == 1
    assert tasks_on(by_cpu, node, fitting_cards(by_cpu, node, node.cards)) == 3


def test_a_node_that_gave_away_more_than_it_has_holds_nothing() -> None:
    room = PoolRoom(a_pool(), [a_node(gpus=1, free_cpu=-500)])
    node = room.nodes[0]
    for tasks in (1, 2):
        ask = room.ask(some_resources(1), tasks)
        assert tasks_on(ask, node, fitting_cards(ask, node, node.cards)) == 0
