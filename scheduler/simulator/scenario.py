"""A scenario in the product's terms: what there is, who may have it, and who asks for it when."""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from scheduler.model import Kind, Strategy, TakeBack, Window
from scheduler.windows import parse_window, week_minute

_MOST_ROWS: Final = 10_000


class ScenarioError(ValueError):
    """What is wrong with a scenario, one line for each fault, each with the path of its value."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _to_window(value: Any) -> Any:
    if isinstance(value, Window):
        return value
    if not (isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(one, str) for one in value)):
        raise ValueError('a window is two times of the week, such as ["Fri 20:00", "Mon 08:00"]')
    return parse_window(value[0], value[1])


def _to_day_minute(value: Any) -> Any:
    return week_minute(f"Mon {value}") if isinstance(value, str) else value


def _known_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"no such time zone: {value!r}") from error
    return value


AWindow = Annotated[Window, BeforeValidator(_to_window)]
DayMinute = Annotated[int, BeforeValidator(_to_day_minute)]
Zone = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(min_length=1, max_length=63)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Seconds = Annotated[int, Field(ge=0)]
Hours = Annotated[float, Field(gt=0, le=24 * 365)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Hourly = Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=24, max_length=24)]


class Nodes(_Part):
    """Equal nodes of a pool."""

    count: Annotated[int, Field(ge=1, le=_MOST_ROWS)] = 1
    gpus: Annotated[int, Field(ge=0, le=64)] = 8
    model: str = "V100-32GB"
    gpu_memory_mib: Annotated[int, Field(ge=1)] = 32_510
    cpu_milli: Annotated[int, Field(ge=1)] = 48_000
    memory_mib: Annotated[int, Field(ge=1)] = 393_216


class PoolPart(_Part):
    name: Name
    kinds: frozenset[Kind] = frozenset(Kind)
    slices_per_gpu: Annotated[int, Field(ge=0, le=64)] = 0
    gpu_reserve_mib: Count = 512
    strategy: Strategy = Strategy.PACK
    priority_gap: Annotated[int, Field(ge=0, le=100)] | None = None
    min_run_s: Seconds = 300
    nodes: tuple[Nodes, ...] = ()


class LendingPart(_Part):
    name: Name
    lender: Name
    borrower: Name
    windows: tuple[AWindow, ...] = ()
    keep_free_slices: Count = 0
    keep_free_cards: Count = 0
    notice_s: Seconds = 0
    take_back: TakeBack = TakeBack.WAIT


class ReservePart(_Part):
    name: Name
    pool: Name
    slices: Count
    windows: tuple[AWindow, ...] = ()


class QuotaPart(_Part):
    """Of the group in one pool, or over all pools without one; of each of its users with ``per_user``."""

    pool: Name | None = None
    per_user: bool = False
    gpu_milli: Count | None = None
    guaranteed_milli: Count | None = None
    cpu_milli: Count | None = None
    memory_mib: Count | None = None
    max_environments: Count | None = None
    max_running_jobs: Count | None = None
    weight: Annotated[int, Field(ge=1, le=1000)] = 1


class GroupPart(_Part):
    name: Name
    users: Annotated[int, Field(ge=1, le=_MOST_ROWS)] = 1
    quotas: tuple[QuotaPart, ...] = ()


class Asked(_Part):
    """What one environment asks for: whole cards, or slices of each of them."""

    gpus: Annotated[int, Field(ge=0, le=64)] = 1
    gpu_slices: Annotated[int, Field(ge=1)] | None = None
    cpu_milli: Annotated[int, Field(ge=1)] = 500
    memory_mib: Annotated[int, Field(ge=1)] = 2_048


class Fixed(_Part):
    """On each workday ``count`` environments open at ``at`` and stay for ``hours``."""

    kind: Literal["fixed"]
    at: DayMinute
    hours: Hours
    count: Annotated[int, Field(ge=0, le=_MOST_ROWS)]


class Poisson(_Part):
    """Environments come at random, by the hour's part of the day's number, and stay for log-normal lengths."""

    kind: Literal["poisson"]
    per_day: Annotated[float, Field(ge=0, le=100_000)]
    weekend_per_day: Annotated[float, Field(ge=0, le=100_000)] = 0
    hourly: Hourly = (1.0,) * 24
    weekend_hourly: Hourly = (1.0,) * 24
    median_h: Hours
    sigma: Annotated[float, Field(ge=0, le=5)]
    max_h: Hours


class EnvironmentsPart(_Part):
    """A stream of environments. ``slots``: how many may exist at once, those that wait included; more do not come."""

    name: Name
    pool: Name
    arrivals: Annotated[Fixed | Poisson, Field(discriminator="kind")]
    resources: Asked = Asked(gpu_slices=1)
    slots: Count | None = None
    groups: tuple[Name, ...] = ()  # none: all


class Saturated(_Part):
    """Each group always has so many jobs waiting."""

    kind: Literal["saturated"]
    backlog_per_group: Annotated[int, Field(ge=1, le=_MOST_ROWS)]


class JobsPoisson(_Part):
    """Jobs come at random; on average they ask for ``offered_load`` of all cards' time. On workdays from 9 to 21 h
    they come ``day_factor`` times as often as on average."""

    kind: Literal["poisson"]
    offered_load: Annotated[float, Field(gt=0, le=10)]
    day_factor: Annotated[float, Field(ge=0, le=2.8)] = 1.0


class FixedLength(_Part):
    kind: Literal["fixed"]
    hours: Hours


class LogNormalLength(_Part):
    kind: Literal["log_normal"]
    median_h: Hours
    sigma: Annotated[float, Field(ge=0, le=5)]
    min_h: Annotated[float, Field(ge=0)] = 0.0
    max_h: Hours


class JobsPart(_Part):
    """A stream of jobs. A preemptible one that ``saves`` does so when it is told to leave, which takes ``save_s``; any
    other falls back to its last periodic save. ``resume_s`` of card time is lost whenever one starts again."""

    name: Name
    pool: Name
    arrivals: Annotated[Saturated | JobsPoisson, Field(discriminator="kind")]
    gpus: dict[int, float] = {1: 1.0}
    priority: dict[int, float] = {50: 1.0}
    length: Annotated[FixedLength | LogNormalLength, Field(discriminator="kind")]
    has_time_limit: bool = True
    over_ask: Annotated[float, Field(ge=1, le=100)] = 1.0  # owners ask for 1 to so many times the real length
    preemptible: Fraction = 1.0
    saves: Fraction = 1.0  # of those that are preemptible
    save_s: Seconds = 0
    save_interval_s: Seconds = 0  # 0: no periodic saves
    resume_s: Seconds = 0
    cpu_milli_per_gpu: Annotated[int, Field(ge=1)] = 2_000
    memory_mib_per_gpu: Annotated[int, Field(ge=1)] = 8_192
    groups: tuple[Name, ...] = ()  # none: all

    @model_validator(mode="after")
    def _has_weights(self) -> "JobsPart":
        for name, weights in (("gpus", self.gpus), ("priority", self.priority)):
            if min(weights.values(), default=-1) < 0 or sum(weights.values()) <= 0:
                raise ValueError(f"the weights of {name} must not be negative, nor all 0")
        if min(self.gpus) < 1 or not 0 <= min(self.priority) <= max(self.priority) <= 100:
            raise ValueError("gpus must be 1 or more, priority 0 to 100")
        return self


class Utilisation(_Part):
    """What a card does for one who holds it, in percent of a card: a job for each of its cards, an environment."""

    job_percent: Annotated[int, Field(ge=0, le=100)] = 90
    environment_percent: Annotated[int, Field(ge=0, le=100)] = 10


class Scenario(_Part):
    name: Name
    description: str = ""
    time_zone: Zone = "UTC"
    start: date = date(2026, 1, 5)  # a Monday
    weeks: Annotated[int, Field(ge=1, le=520)] = 4  # that are measured
    warmup_weeks: Annotated[int, Field(ge=0, le=520)] = 1  # before them
    seed: int = 1
    runs: Annotated[int, Field(ge=1, le=100)] = 1  # with seeds from ``seed`` on; the result is their mean
    start_s: Seconds = 0  # from a placement to the first moment of work
    half_life_h: Hours = 48.0  # of the groups' usage
    pools: Annotated[tuple[PoolPart, ...], Field(min_length=1)]
    lending: tuple[LendingPart, ...] = ()
    reserves: tuple[ReservePart, ...] = ()
    groups: Annotated[tuple[GroupPart, ...], Field(min_length=1)]
    environments: tuple[EnvironmentsPart, ...] = ()
    jobs: tuple[JobsPart, ...] = ()
    utilisation: Utilisation = Utilisation()

    @model_validator(mode="after")
    def _names_exist(self) -> "Scenario":
        _known_zone(self.time_zone)
        if self.start.weekday() != 0:
            raise ValueError(f"start must be a Monday, {self.start} is not")
        faults = [*_doubles(self), *_strangers(self)]
        if faults:
            raise ValueError("; ".join(faults))
        return self


def parse_scenario(data: Any) -> Scenario:
    """The scenario that plain JSON values describe. Raises ScenarioError."""
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        lines = [_line(fault["loc"], fault["msg"]) for fault in error.errors(include_url=False)]
        raise ScenarioError("\n".join(lines)) from error


def _line(path: tuple[int | str, ...], message: str) -> str:
    return f"{'.'.join(map(str, path)) or 'scenario'}: {message.removeprefix('Value error, ')}"


def _doubles(scenario: Scenario) -> Iterable[str]:
    rows: dict[str, tuple[Any, ...]] = {
        "pools": scenario.pools,
        "lending": scenario.lending,
        "reserves": scenario.reserves,
        "groups": scenario.groups,
        "streams": (*scenario.environments, *scenario.jobs),
    }
    for part, named in rows.items():
        names = [one.name for one in named]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{part}: the name {name!r} is there twice"


def _strangers(scenario: Scenario) -> Iterable[str]:
    pools = {pool.name for pool in scenario.pools}
    groups = {group.name for group in scenario.groups}
    asked = [
        *((f"lending.{at}.lender", one.lender, pools) for at, one in enumerate(scenario.lending)),
        *((f"lending.{at}.borrower", one.borrower, pools) for at, one in enumerate(scenario.lending)),
        *((f"reserves.{at}.pool", one.pool, pools) for at, one in enumerate(scenario.reserves)),
    ]
    parts: list[tuple[str, Sequence[EnvironmentsPart | JobsPart]]]
    parts = [("environments", scenario.environments), ("jobs", scenario.jobs)]
    for kind, streams in parts:
        for at, stream in enumerate(streams):
            asked.append((f"{kind}.{at}.pool", stream.pool, pools))
            asked += [(f"{kind}.{at}.groups", name, groups) for name in stream.groups]
    for at, group in enumerate(scenario.groups):
        asked += [(f"groups.{at}.quotas", quota.pool, pools) for quota in group.quotas if quota.pool is not None]
    for path, name, known in asked:
        if name not in known:
            yield f"{path}: there is no {name!r}, only {', '.join(sorted(known))}"
