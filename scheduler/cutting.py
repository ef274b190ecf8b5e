"""What a share of a card really costs, and what a card's remainder is worth, given which shares are asked.

A cutting-stock problem: an 810 share costs the whole card when nothing usual fits beside it, a 470 share half of one.
All in integers: `CARD` is the worth of a whole card.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from scheduler.model import WHOLE_CARD_MILLI

CARD: Final = 1_000_000_000
_MOST_PIVOTS: Final = 400


def reachable_sums(sizes: Sequence[int]) -> list[int]:
    """All sums of sizes, each any number of times, up to a whole card, ascending; 0 is the first."""
    reached = 1
    whole = (1 << (WHOLE_CARD_MILLI + 1)) - 1
    for size in sizes:
        step = size
        while 0 < step <= WHOLE_CARD_MILLI:  # doubling: reaches every multiple
            reached |= (reached << step) & whole
            step *= 2
    return [total for total in range(WHOLE_CARD_MILLI + 1) if reached >> total & 1]


def share_prices(demand: Mapping[int, int]) -> dict[int, int]:
    """Share size in milli (1 to 1000) -> what one such share costs, in parts of `CARD`.

    The dual of packing this demand, size -> count, into the fewest cards, by column generation (Gilmore and Gomory,
    1961) with an integer inverse: exact, so the same on every machine.
    """
    sizes = sorted(demand)
    inverse = [[int(row == column) for column in range(len(sizes))] for row in range(len(sizes))]
    amounts = [demand[size] for size in sizes]  # of each pattern in the basis; both over the denominator
    denominator = 1
    knapsack = _Knapsack(sizes)
    best = 1
    for _ in range(_MOST_PIVOTS):
        prices = [sum(column) for column in zip(*inverse, strict=True)]
        best, pattern = knapsack.best(prices)
        if best <= denominator:
            break
        entering = [sum(cell * count for cell, count in zip(row, pattern, strict=True) if count) for row in inverse]
        pivot = _leaving_row(amounts, entering)
        inverse, amounts = _pivoted(inverse, amounts, entering, pivot, denominator)
        denominator = entering[pivot]
    scale = max(best, denominator)  # should it stop early: what fits on one card never costs more than it
    prices = [sum(column) for column in zip(*inverse, strict=True)]
    return {size: max(0, CARD * price // scale) for size, price in zip(sizes, prices, strict=True)}


def residue_values(weights: Mapping[int, int], patience: int) -> list[int]:
    """Worth of 0 to 1000 free milli on one card, in parts of `CARD`.

    ``patience`` tasks are offered one after the other, each size as often as its weight says, and each is put here,
    which earns its price, or elsewhere. The longer the patience, the more only perfect fits count.
    """
    prices = share_prices({size: weight for size, weight in weights.items() if size < WHOLE_CARD_MILLI})
    prices[WHOLE_CARD_MILLI] = CARD
    earning = sorted(size for size in weights if prices[size])  # the others never make a difference
    levels = reachable_sums(earning)
    offers = [
        [(weights[size], prices[size], bisect_right(levels, level - size) - 1) for size in earning if size <= level]
        for level in levels
    ]
    total = sum(weights.values())
    worth = [0] * len(levels)
    for _ in range(patience):
        for place in range(len(levels) - 1, 0, -1):  # from the top: what lies below is still what it was
            here, gain = worth[place], 0
            for weight, price, below in offers[place]:
                more = price + worth[below] - here
                if more > 0:
                    gain += weight * more
            worth[place] = here + gain // total
    ends = [*levels[1:], WHOLE_CARD_MILLI + 1]
    return [value for value, level, end in zip(worth, levels, ends, strict=True) for _ in range(level, end)]


class _Knapsack:
    """Most valuable multisets of sizes on one card, for changing prices."""

    def __init__(self, sizes: Sequence[int]) -> None:
        levels = reachable_sums(sizes)
        place_of = {level: place for place, level in enumerate(levels)}
        self._count = len(sizes)
        self._before = [
            [(item, place_of[level - size]) for item, size in enumerate(sizes) if level - size in place_of]
            for level in levels
        ]

    def best(self, prices: Sequence[int]) -> tuple[int, list[int]]:
        """The highest value, and how many of each size it takes."""
        values: list[int] = []
        picks: list[tuple[int, int]] = []
        top = 0
        for place, before in enumerate(self._before):
            value, pick = 0, (-1, 0)
            for item, rest in before:
                if (reached := values[rest] + prices[item]) > value:
                    value, pick = reached, (item, rest)
            values.append(value)
            picks.append(pick)
            if value > values[top]:
                top = place
        counts = [0] * self._count
        best = values[top]
        while picks[top][0] >= 0:
            item, top = picks[top]
            counts[item] += 1
        return best, counts


def _leaving_row(amounts: Sequence[int], entering: Sequence[int]) -> int:
    """The pattern that runs out first as the entering one grows; the first of equals."""
    chosen = -1
    for row, grows in enumerate(entering):
        if grows > 0 and (chosen < 0 or amounts[row] * entering[chosen] < amounts[chosen] * grows):
            chosen = row
    return chosen


def _pivoted(
    inverse: list[list[int]], amounts: list[int], entering: Sequence[int], pivot: int, denominator: int
) -> tuple[list[list[int]], list[int]]:
    """Inverse and amounts after the exchange, over the denominator ``entering[pivot]``. The divisions are exact."""
    by, row_in, amount_in = entering[pivot], inverse[pivot], amounts[pivot]
    rows, left = [], []
    for row, (cells, amount, factor) in enumerate(zip(inverse, amounts, entering, strict=True)):
        if row == pivot:
            rows.append(cells)
            left.append(amount)
        else:
            rows.append(
                [(cell * by - factor * other) // denominator for cell, other in zip(cells, row_in, strict=True)]
            )
            left.append((amount * by - factor * amount_in) // denominator)
    return rows, left
