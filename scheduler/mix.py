"""Learns what is usually asked of a pool. Integers only, and old demand fades: its memory is `HORIZON` tasks.

Each task adds `ONE` to the weight of its needs. When all weights together exceed the horizon, all are halved, and
what has faded to nothing is forgotten; so a mix never grows without bound and never drifts.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.model import Demand, Mix, Resources

ONE: Final = 16  # what one task adds
HORIZON: Final = 16_384 * ONE
ENOUGH: Final = 100 * ONE  # below it a mix says nothing yet
REFRESH: Final = 8_192  # tasks


def observe(mix: Mix, submitted: Iterable[tuple[Resources, int]], *, ended: int = 0) -> Mix:
    """The mix after these submissions, each with its number of tasks, in order, and after so many tasks have ended."""
    weights = {demand.resources: demand.weight for demand in mix.demands}
    total, gone = sum(weights.values()), mix.ended
    for resources, tasks in submitted:
        weights[resources] = weights.get(resources, 0) + tasks * ONE
        total += tasks * ONE
        while total > HORIZON:
            weights = {needs: weight // 2 for needs, weight in weights.items() if weight > 1}
            total, gone = sum(weights.values()), gone // 2
    demands = tuple(Demand(needs, weight) for needs, weight in weights.items())
    return Mix(mix.pool_id, demands, min(HORIZON, gone + ended * ONE))


def next_refresh(seen: int) -> int:
    """How many tasks a pool must have seen for a mix worth using in place of the one made after ``seen`` of them.

    Each new mix costs a fit (`scheduler.forecast`), so it is due when much more is known, and then now and then.
    """
    return max(ENOUGH // ONE, min(4 * seen, seen + REFRESH))
