"""Who asks for what and when: environments and jobs drawn from a scenario's streams.

Each stream draws from generators of its own, seeded by its name, so that a change of one part of a scenario, or of the
rule that it tries, leaves what the others draw as it was.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from random import Random
from typing import Final
from zoneinfo import ZoneInfo

from scheduler.model import Kind, Resources
from scheduler.simulator.scenario import (
    EnvironmentsPart,
    Fixed,
    FixedLength,
    GroupPart,
    JobsPart,
    JobsPoisson,
    LogNormalLength,
    Poisson,
    Scenario,
)
from scheduler.windows import SECOND_US

HOUR_US: Final = 3600 * SECOND_US
_WEEK_H: Final = 168
_WORK_H: Final = 60  # workdays from 9 to 21 h
_SATURDAY: Final = 5


@dataclass(slots=True)
class Work:
    """An environment or job from its first to its last moment, with what the scheduler is not told."""

    id: str
    kind: Kind
    group_id: str
    user_id: str
    pool_id: str
    resources: Resources
    priority: int
    arrives_us: int
    length_us: int  # an environment's stay from its arrival; a job's time of computing
    limit_us: int | None = None
    preemptible: bool = False
    saves: bool = False  # when it is told to leave
    save_us: int = 0
    save_interval_us: int = 0
    resume_us: int = 0
    # What has happened so far.
    attempt: int = 0
    kept_us: int = 0  # computed and saved
    begins_us: int = 0  # this attempt
    kept_at_start_us: int = 0
    first_start_us: int | None = None

    @property
    def cards(self) -> int:
        return self.resources.gpus

    def done_us(self, now_us: int) -> int:
        """What it has computed by now, saved or not."""
        resume = self.resume_us if self.attempt > 1 else 0
        return self.kept_at_start_us + max(0, now_us - self.begins_us - resume)

    def saved_us(self, now_us: int) -> int:
        """What of it has been saved by itself by now."""
        if self.save_interval_us <= 0:
            return self.kept_at_start_us
        since = self.done_us(now_us) - self.kept_at_start_us
        return self.kept_at_start_us + since // self.save_interval_us * self.save_interval_us


@dataclass
class _Members:
    """The users of some groups, taken in turn: group by group, and in each user by user."""

    groups: Sequence[GroupPart]
    _next: int = 0
    _next_user: dict[str, int] = field(default_factory=dict)

    def next(self) -> tuple[str, str]:
        group = self.groups[self._next % len(self.groups)]
        self._next += 1
        return group.name, self.next_user(group)

    def next_user(self, group: GroupPart) -> str:
        number = self._next_user.get(group.name, 0)
        self._next_user[group.name] = number + 1
        return f"{group.name}-{number % group.users + 1}"


def members_of(scenario: Scenario, names: Sequence[str]) -> list[GroupPart]:
    return [group for group in scenario.groups if not names or group.name in names]


class EnvironmentStream:
    """All environments of one stream, in the order of their arrival."""

    def __init__(self, scenario: Scenario, part: EnvironmentsPart, seed: int, weeks: int) -> None:
        self._scenario, self._part, self._weeks = scenario, part, weeks
        self._zone = ZoneInfo(scenario.time_zone)
        self._random = Random(f"{seed}:environments:{part.name}")
        self._members = _Members(members_of(scenario, part.groups))

    def arrivals(self) -> Iterator[Work]:
        arrivals = self._part.arrivals
        times = self._fixed(arrivals) if isinstance(arrivals, Fixed) else self._poisson(arrivals)
        for number, (at_us, length_us) in enumerate(times):
            group, user = self._members.next()
            yield Work(
                id=f"{self._part.name}-{number:06}",
                kind=Kind.ENVIRONMENT,
                group_id=group,
                user_id=user,
                pool_id=self._part.pool,
                resources=Resources(**self._part.resources.model_dump()),
                priority=50,
                arrives_us=at_us,
                length_us=length_us,
            )

    def _days(self) -> Iterator[date]:
        return (self._scenario.start + timedelta(days=day) for day in range(7 * self._weeks))

    def _fixed(self, arrivals: Fixed) -> Iterator[tuple[int, int]]:
        for day in self._days():
            if day.weekday() < _SATURDAY:
                at_us = local_us(day, arrivals.at, self._zone)
                yield from [(at_us, round(arrivals.hours * HOUR_US))] * arrivals.count

    def _poisson(self, arrivals: Poisson) -> Iterator[tuple[int, int]]:
        for day in self._days():
            weekend = day.weekday() >= _SATURDAY
            hourly = arrivals.weekend_hourly if weekend else arrivals.hourly
            a_day = arrivals.weekend_per_day if weekend else arrivals.per_day
            for hour, part in enumerate(hourly):
                rate = a_day * part / (sum(hourly) or 1)
                span = local_us(day, hour * 60, self._zone), local_us(day, hour * 60 + 60, self._zone)
                for at_us in _poisson_times(self._random, rate, *span):
                    yield at_us, round(_log_normal(self._random, arrivals.median_h, arrivals.sigma, 0, arrivals.max_h))


class JobStream:
    """The jobs of one stream: drawn one by one, for a group that is given or in turn."""

    def __init__(self, scenario: Scenario, part: JobsPart, seed: int) -> None:
        self.part = part
        self.groups = members_of(scenario, part.groups)
        self._zone = ZoneInfo(scenario.time_zone)
        self._members = _Members(self.groups)
        self._times = Random(f"{seed}:arrivals:{part.name}")
        self._draws = Random(f"{seed}:jobs:{part.name}")
        self._cards = sum(nodes.gpus * nodes.count for pool in scenario.pools for nodes in pool.nodes)
        self._number = 0

    def draw(self, at_us: int, group: GroupPart | None = None) -> Work:
        """The next job of the stream."""
        part, draws = self.part, self._draws
        group_id, user = (group.name, self._members.next_user(group)) if group else self._members.next()
        gpus = draws.choices(list(part.gpus), list(part.gpus.values()))[0]
        priority = draws.choices(list(part.priority), list(part.priority.values()))[0]
        length_us = self._length_us()
        asked = draws.uniform(1.0, part.over_ask) if part.over_ask > 1 else 1.0
        preemptible, saves = draws.random() < part.preemptible, draws.random() < part.saves
        self._number += 1
        return Work(
            id=f"{part.name}-{self._number:06}",
            kind=Kind.JOB,
            group_id=group_id,
            user_id=user,
            pool_id=part.pool,
            resources=Resources(part.cpu_milli_per_gpu * gpus, part.memory_mib_per_gpu * gpus, gpus),
            priority=priority,
            arrives_us=at_us,
            length_us=length_us,
            limit_us=_full_seconds(length_us * asked) if part.has_time_limit else None,
            preemptible=preemptible,
            saves=saves,
            save_us=part.save_s * SECOND_US,
            save_interval_us=part.save_interval_s * SECOND_US,
            resume_us=part.resume_s * SECOND_US,
        )

    def arrival_times(self, start: date, weeks: int) -> Iterator[int]:
        """When jobs of a random stream come; those of a saturated one come as others start."""
        arrivals = self.part.arrivals
        if not isinstance(arrivals, JobsPoisson):
            return
        mean_cards = sum(gpus * part for gpus, part in self.part.gpus.items()) / sum(self.part.gpus.values())
        rate = arrivals.offered_load * self._cards / (mean_cards * mean_length_h(self.part.length))
        off_factor = (_WEEK_H - _WORK_H * arrivals.day_factor) / (_WEEK_H - _WORK_H)
        for day in (start + timedelta(days=number) for number in range(7 * weeks)):
            for hour in range(24):
                is_work = day.weekday() < _SATURDAY and 9 <= hour < 21
                span = local_us(day, hour * 60, self._zone), local_us(day, hour * 60 + 60, self._zone)
                yield from _poisson_times(self._times, rate * (arrivals.day_factor if is_work else off_factor), *span)

    def _length_us(self) -> int:
        length = self.part.length
        if isinstance(length, FixedLength):
            return round(length.hours * HOUR_US)
        return round(_log_normal(self._draws, length.median_h, length.sigma, length.min_h, length.max_h))


class Slots:
    """How many environments of a stream may exist at once."""

    def __init__(self, part: EnvironmentsPart) -> None:
        self._free = part.slots

    def take(self) -> bool:
        if self._free == 0:
            return False
        if self._free is not None:
            self._free -= 1
        return True

    def give_back(self) -> None:
        if self._free is not None:
            self._free += 1


class Backlog:
    """A saturated stream."""

    def __init__(self, stream: JobStream, per_group: int) -> None:
        self._stream, self._per_group = stream, per_group

    def refill(self, counted: Mapping[tuple[str, str], int], now_us: int) -> Iterable[Work]:
        for group in self._stream.groups:
            missing = self._per_group - counted.get((self._stream.part.name, group.name), 0)
            yield from (self._drawn(group, now_us) for _ in range(missing))

    def _drawn(self, group: GroupPart, now_us: int) -> Work:
        return self._stream.draw(now_us, group)


def local_us(day: date, minute: int, zone: ZoneInfo) -> int:
    """The instant of a local time, the first one where it comes twice."""
    local = datetime(day.year, day.month, day.day) + timedelta(minutes=minute)  # noqa: DTZ001 - the zone follows
    return round(local.replace(tzinfo=zone).timestamp()) * SECOND_US


def mean_length_h(length: FixedLength | LogNormalLength) -> float:
    """Of the lengths that are drawn: a log-normal one is cut off at both ends."""
    if isinstance(length, FixedLength):
        return length.hours
    if length.sigma == 0:
        return min(max(length.median_h, length.min_h), length.max_h)
    mu, sigma = math.log(length.median_h), length.sigma

    def below(hours: float, shift: float) -> float:
        return 0.0 if hours <= 0 else 0.5 * (1 + math.erf(((math.log(hours) - mu) / sigma - shift) / math.sqrt(2)))

    inner = math.exp(mu + sigma * sigma / 2) * (below(length.max_h, sigma) - below(length.min_h, sigma))
    return length.min_h * below(length.min_h, 0) + inner + length.max_h * (1 - below(length.max_h, 0))


def _log_normal(random: Random, median_h: float, sigma: float, min_h: float, max_h: float) -> float:
    """Microseconds."""
    return HOUR_US * min(max(random.lognormvariate(math.log(median_h), sigma), min_h), max_h)


def _poisson_times(random: Random, an_hour: float, start_us: int, end_us: int) -> Iterator[int]:
    at = float(start_us)
    while an_hour > 0:
        at += random.expovariate(an_hour) * HOUR_US
        if at >= end_us:
            return
        yield int(at)


def _full_seconds(microseconds: float) -> int:
    return -(-round(microseconds) // SECOND_US) * SECOND_US
