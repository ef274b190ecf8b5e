import pytest

from scheduler.wording import cards, cores, counted, mib, thousandths


@pytest.mark.parametrize(
    ("milli", "text"),
    [(0, "0"), (1, "0.001"), (125, "0.125"), (500, "0.5"), (1000, "1"), (2500, "2.5"), (-50, "-0.05")],
)
def test_thousandths_are_the_shortest_exact_decimal_b008(milli: int, text: str) -> None:
    assert thousandths(milli) == text


def test_one_is_singular() -> None:
    assert (cards(1000), cards(125), cores(1000), cores(500)) == (
        "1 card",
        "0.125 cards",
        "1 CPU core",
        "0.5 CPU cores",
    )
    assert (counted(1, "task"), counted(0, "task")) == ("1 task", "0 tasks")


def test_memory_is_said_in_gib_when_it_is_whole() -> None:
    assert (mib(2048), mib(1000), mib(0)) == ("2 GiB", "1000 MiB", "0 MiB")
