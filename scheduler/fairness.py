"""How much of a pool a group has used of late: card-equivalent milli-seconds that fade by half each half-life.

Integers only, the same on every machine. Powers of two are fixed-point numbers with 64 bits behind the point; each
step rounds down, so that a sum kept in many steps lies below the exact one by less than two units a step, and those
fade too.
"""

from math import isqrt
from typing import Final

HALF_LIFE_S: Final = 2 * 86_400
SECOND_US: Final = 1_000_000
_BITS: Final = 64
_ONE: Final = 1 << _BITS
_LN2: Final = 12_786_308_645_202_655_659  # natural logarithm of 2, over 2**64
_ROOT_COUNT: Final = 40


def _roots() -> tuple[int, ...]:
    """2 to the power of -1/2, -1/4, -1/8, ..."""
    roots = [isqrt(_ONE * _ONE // 2)]
    while len(roots) < _ROOT_COUNT:
        roots.append(isqrt(roots[-1] * _ONE))
    return tuple(roots)


_ROOTS: Final = _roots()


def decayed(usage: int, elapsed_us: int, half_life_s: int = HALF_LIFE_S) -> int:
    """What is left of ``usage`` after the time; a clock that went backwards changes nothing."""
    return usage * _faded(elapsed_us, half_life_s) >> _BITS


def accrued(usage: int, milli: int, elapsed_us: int, half_life_s: int = HALF_LIFE_S) -> int:
    """The usage after the time, when ``milli`` card equivalents were held all the while; they fade as they come."""
    left = _faded(elapsed_us, half_life_s)
    gained = milli * half_life_s * (_ONE - left) // _LN2
    return (usage * left >> _BITS) + gained


def dominant_milli(card_milli: int, cpu_milli: int, memory_mib: int, totals: tuple[int, int, int]) -> int:
    """The largest share that the amounts are of the pool's ``totals`` (card milli, CPU milli, MiB), said in card
    equivalents of the pool. In a pool without cards it is said in CPU milli."""
    cards, cpu, memory = totals
    unit = cards or cpu
    most = card_milli
    if cpu > 0:
        most = max(most, -(-cpu_milli * unit // cpu))
    if memory > 0:
        most = max(most, -(-memory_mib * unit // memory))
    return most


def _faded(elapsed_us: int, half_life_s: int) -> int:
    """2 to the power of -elapsed / half-life, over 2**64."""
    if elapsed_us <= 0:
        return _ONE
    halves, rest = divmod(elapsed_us, half_life_s * SECOND_US)
    if halves >= 2 * _BITS:
        return 0
    left = _ONE
    binary = (rest << _ROOT_COUNT) // (half_life_s * SECOND_US)
    for place, root in enumerate(_ROOTS, start=1):
        if binary >> (_ROOT_COUNT - place) & 1:
            left = left * root >> _BITS
    return left >> halves
