"""What is counted while a simulation runs, and what comes out of it."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.model import Kind, TaskPlacement
from scheduler.simulator.scenario import Scenario
from scheduler.simulator.streams import HOUR_US, Work
from scheduler.windows import SECOND_US

WEEK_H: Final = 168
TASK_H: Final = 12  # a training job of the field is one card for so long


@dataclass
class Meter:
    """Sums over the measured weeks, in microseconds of cards. ``hour_of_week`` counts from Monday 00:00 local time."""

    scenario: Scenario
    from_us: int
    until_us: int
    hour_of_week: Callable[[int], int]
    useful_us: int = 0  # computed by jobs and kept
    lost_us: int = 0  # computed and lost, or spent on saving and resuming
    lent_us: int = 0
    busy_us: int = 0
    environment_us: int = 0
    jobs_done: int = 0
    preemptions: int = 0
    reclaims: int = 0
    unserved: int = 0
    reserved: int = 0  # jobs that were promised a start
    late_starts: int = 0  # and started after it
    environment_waits_us: list[int] = field(default_factory=list)
    job_waits_us: list[int] = field(default_factory=list)
    useful_of_group_us: dict[str, int] = field(default_factory=dict)
    curve_us: list[int] = field(default_factory=lambda: [0] * WEEK_H)
    environments_open_us: list[int] = field(default_factory=lambda: [0] * WEEK_H)
    _holders: dict[str, int] = field(default_factory=dict)  # by card
    _environments: int = 0
    _counted_us: int = 0

    def is_measured(self, at_us: int) -> bool:
        return self.from_us <= at_us < self.until_us

    def within(self, start_us: int, end_us: int) -> int:
        return max(0, min(end_us, self.until_us) - max(start_us, self.from_us))

    def hold(self, work: Work, tasks: Iterable[TaskPlacement], now_us: int, sign: int) -> None:
        """Cards are taken (sign 1) or given back (-1)."""
        self.advance(now_us)
        self._environments += sign if work.kind is Kind.ENVIRONMENT else 0
        for task in tasks:
            for share in task.shares:
                count = self._holders.get(share.device_id, 0) + sign
                if count:
                    self._holders[share.device_id] = count
                else:
                    del self._holders[share.device_id]

    def advance(self, now_us: int) -> None:
        """Count the cards that were held since the last time."""
        start, end = max(self._counted_us, self.from_us), min(now_us, self.until_us)
        self._counted_us = max(now_us, self._counted_us)
        while start < end:
            step = min(end, start - start % HOUR_US + HOUR_US)
            hour = self.hour_of_week(start)
            held_us = len(self._holders) * (step - start)
            self.busy_us += held_us
            self.curve_us[hour] += held_us
            self.environment_us += self._environments * (step - start)
            self.environments_open_us[hour] += self._environments * (step - start)
            start = step

    def compute(self, work: Work, start_us: int, end_us: int, lost_us: int) -> None:
        """A job computed from start to end, and lost the last of it."""
        kept = self.within(start_us, end_us - lost_us) * work.cards
        self.useful_us += kept
        self.useful_of_group_us[work.group_id] = self.useful_of_group_us.get(work.group_id, 0) + kept
        self.lost_us += self.within(end_us - lost_us, end_us) * work.cards

    def waste(self, work: Work, start_us: int, end_us: int) -> None:
        """A job held its cards to save or to resume."""
        self.lost_us += self.within(start_us, end_us) * work.cards

    def results(self, cards: int, decide_calls: int) -> dict[str, Any]:
        scenario = self.scenario
        weeks = scenario.weeks
        all_us = cards * weeks * WEEK_H * HOUR_US
        of_use = scenario.utilisation
        used = of_use.job_percent * self.useful_us + of_use.environment_percent * self.environment_us
        useful = self.useful_us or 1
        return {
            "twelve_hour_equivalents_per_week": round(self.useful_us / HOUR_US / TASK_H / weeks, 2),
            "jobs_per_week": round(self.jobs_done / weeks, 2),
            "hours_per_card_per_day": round(self.busy_us / HOUR_US / max(1, cards) / weeks / 7, 2),
            "utilisation_percent": round(used / max(1, all_us), 2),
            "allocation_percent": round(100 * self.busy_us / max(1, all_us), 2),
            "environment_wait_s": _spread(self.environment_waits_us),
            "environments_per_week": round(len(self.environment_waits_us) / weeks, 2),
            "environments_unserved_per_week": round(self.unserved / weeks, 2),
            "job_wait_s": _spread(self.job_waits_us),
            "preemptions_per_week": round(self.preemptions / weeks, 2),
            "reclaims_per_week": round(self.reclaims / weeks, 2),
            "reservations_per_week": round(self.reserved / weeks, 2),
            "late_starts_per_week": round(self.late_starts / weeks, 2),
            "lost_card_hours_per_week": round(self.lost_us / HOUR_US / weeks, 2),
            "lent_card_hours_per_week": round(self.lent_us / HOUR_US / weeks, 2),
            "share_per_group": {
                group.name: round(self.useful_of_group_us.get(group.name, 0) / useful, 4) for group in scenario.groups
            },
            "hourly_allocation_percent": [round(100 * us / HOUR_US / weeks / max(1, cards), 1) for us in self.curve_us],
            "hourly_environments": [round(us / HOUR_US / weeks, 1) for us in self.environments_open_us],
            "decide_calls": decide_calls,
        }


def percentile(ordered: Sequence[int], percent: int) -> int:
    """The least of the ordered numbers that so many percent of them do not exceed; 0 of none."""
    if not ordered:
        return 0
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def mean_results(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Number by number; of waits, p50 and p95 are means, max is the largest."""
    return {name: _mean([one[name] for one in results], name) for name in results[0]}


def _mean(values: list[Any], name: str) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return {key: _mean([value[key] for value in values], key) for key in first}
    if isinstance(first, list):
        return [_mean(list(column), name) for column in zip(*values, strict=True)]
    if name == "max":
        return max(values)
    return round(sum(values) / len(values), 4)


def _spread(waits_us: list[int]) -> dict[str, float]:
    ordered = sorted(waits_us)
    return {
        "p50": _seconds(percentile(ordered, 50)),
        "p95": _seconds(percentile(ordered, 95)),
        "max": _seconds(ordered[-1] if ordered else 0),
        "over_2_minutes": len(ordered) - bisect_left(ordered, 120 * SECOND_US + 1),
    }


def _seconds(microseconds: int) -> float:
    return round(microseconds / SECOND_US, 1)
