from scheduler.mix import ENOUGH, ONE
from scheduler.model import Demand
from scheduler.simulator.habits import Habits
from tests.scheduler.builders import some_resources


def test_a_mix_is_put_to_use_once_enough_has_been_seen() -> None:
    habits, needs = Habits(), some_resources(1)
    for _ in range(ENOUGH // ONE - 1):
        habits.submit("train", needs)
        habits.end("train")
    assert not list(habits.mixes)
    habits.submit("train", needs)
    [mix] = list(habits.mixes)
    assert (mix.pool_id, mix.demands, mix.ended) == ("train", (Demand(needs, ENOUGH),), ENOUGH - ONE)


def test_a_mix_stays_the_same_object_until_there_is_a_new_one() -> None:
    habits = Habits()
    for number in range(2 * ENOUGH // ONE - 1):
        habits.submit("dev" if number % 2 else "train", some_resources(1))
    before = habits.mixes
    habits.submit("dev", some_resources(2))
    assert [mix.pool_id for mix in habits.mixes] == ["dev", "train"]
    assert habits.mixes[1] is before[-1]
