"""Weekly windows of wall-clock time as instants: whether one is open, until when, and when the next one opens.

One rule for days on which the clocks change: a local time that exists twice counts the first time, and one that does
not exist counts as the moment of the change. So the order of local times is kept: no window opens twice, and one that
lies within a skipped hour does not open that day. A window's length is what the local clock says, so a night may be an
hour longer or shorter.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from scheduler.model import Window

SECOND_US: Final = 1_000_000
DAY_MIN: Final = 24 * 60
WEEK_MIN: Final = 7 * DAY_MIN
WEEK_US: Final = WEEK_MIN * 60 * SECOND_US
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WEEKS_AROUND: Final = 3  # a span is shorter than a week, and a week in which none opens is followed by one that has


@dataclass(frozen=True, slots=True)
class Span:
    """Time during which windows are open without a break. ``closes_us`` None: they never close."""

    opens_us: int
    closes_us: int | None


ALWAYS: Final = Span(0, None)


def span_at(windows: Sequence[Window], time_zone: str, at_us: int) -> Span | None:
    """The span that the instant is in; None when closed. A span includes its opening, not its closing.

    No windows at all are always open, as are windows that together fill the week. Windows that overlap or touch are
    one span.
    """
    spans = _spans_around(tuple(windows), time_zone, at_us // WEEK_US)
    if spans is None:
        return ALWAYS
    place = bisect_right(spans, at_us, key=_opening) - 1
    if place < 0:
        return None
    span = spans[place]
    return span if span.closes_us is None or at_us < span.closes_us else None


def next_opening_us(windows: Sequence[Window], time_zone: str, at_us: int) -> int | None:
    """When a span opens after the instant; None for windows that are always open."""
    spans = _spans_around(tuple(windows), time_zone, at_us // WEEK_US)
    if spans is None:
        return None
    place = bisect_right(spans, at_us, key=_opening)
    return spans[place].opens_us if place < len(spans) else None


def week_minute(text: str) -> int:
    """``Fri 20:00`` as minutes since Monday 00:00; ``24:00`` is the day's end. ValueError for anything else."""
    day, _, clock = text.strip().partition(" ")
    hour, colon, minute = clock.strip().partition(":")
    if day.title() not in DAYS or not colon or not (hour.isdecimal() and minute.isdecimal() and len(minute) == 2):
        raise ValueError(f"not a day and time such as 'Fri 20:00': {text!r}")
    minutes = int(hour) * 60 + int(minute)
    if int(minute) > 59 or minutes > DAY_MIN:
        raise ValueError(f"no such time of day: {text!r}")
    return DAYS.index(day.title()) * DAY_MIN + minutes


def parse_window(start: str, end: str) -> Window:
    """The window from ``Fri 20:00`` to ``Mon 08:00``."""
    return Window(week_minute(start) % WEEK_MIN, week_minute(end))


def format_minute(minute: int) -> str:
    """Minutes since Monday 00:00 as ``Fri 20:00``."""
    day, of_day = divmod(minute % WEEK_MIN, DAY_MIN)
    return f"{DAYS[day]} {of_day // 60:02}:{of_day % 60:02}"


def _opening(span: Span) -> int:
    return span.opens_us


@lru_cache(maxsize=4096)
def _spans_around(windows: tuple[Window, ...], time_zone: str, week: int) -> tuple[Span, ...] | None:
    """The spans of the weeks around, in order; None when always open. ``week`` counts from the epoch."""
    local = _joined(_unrolled(windows))
    if not windows or any(end - start >= WEEK_MIN for start, end in local):
        return None
    zone = ZoneInfo(time_zone)
    monday = datetime(1970, 1, 5) + timedelta(weeks=week)  # noqa: DTZ001 - a local time, the zone is applied below
    instants = [
        (_instant_us(base + timedelta(minutes=start), zone), _instant_us(base + timedelta(minutes=end), zone))
        for base in (monday + timedelta(weeks=shift) for shift in range(-_WEEKS_AROUND, _WEEKS_AROUND + 1))
        for start, end in local
    ]
    return tuple(Span(opens, closes) for opens, closes in _joined(each for each in instants if each[0] < each[1]))


def _unrolled(windows: Iterable[Window]) -> list[tuple[int, int]]:
    """Each window once in this week and once in the next, so that those that meet at the week's end are joined."""
    once = [(one.start, one.end if one.end > one.start else one.end + WEEK_MIN) for one in windows]
    return [*once, *((start + WEEK_MIN, end + WEEK_MIN) for start, end in once)]


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time as spans in order that neither overlap nor touch."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _instant_us(local: datetime, zone: ZoneInfo) -> int:
    """The instant of a local time, by the module's rule."""
    first = local.replace(tzinfo=zone, fold=0)
    before, after = first.utcoffset(), first.replace(fold=1).utcoffset()
    if before is None or after is None or before >= after:  # once, or twice: the first
        return _since_epoch_us(first)
    # The clocks skip this time. The change lies between the two readings of it: narrow it down to the second.
    naive = local.replace(tzinfo=UTC)
    low, high = naive - after, naive - before
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == after:
            high = middle
        else:
            low = middle
    return _since_epoch_us(high)


def _since_epoch_us(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)
