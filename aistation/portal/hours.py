"""Weekly windows for people: in words, by the rule's own clock, and whether they are open now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.utils.dates import WEEKDAYS_ABBR
from django.utils.translation import gettext as _

from aistation.fleet.selectors import windows_of
from scheduler.windows import ALWAYS, DAY_MIN, WEEK_MIN, Span, next_opening_us, span_at

Pairs = Sequence[Sequence[int]]
"""Windows as the tables have them: pairs of minutes since Monday 00:00."""

NIGHTS_AND_WEEKENDS: Final = tuple(
    (day * DAY_MIN + 20 * 60, ((day + 1) % 7 + (2 if day == 4 else 0)) % 7 * DAY_MIN + 8 * 60) for day in range(5)
)
"""20:00 to 08:00 on workdays; from Friday it lasts until Monday."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def day_choices() -> list[tuple[str, str]]:
    return [(str(day), str(WEEKDAYS_ABBR[day])) for day in range(7)]


def clock(minute: int) -> str:
    """The time of day of a minute of the week: "08:30"."""
    return f"{minute % DAY_MIN // 60:02}:{minute % 60:02}"


def windows_text(pairs: Pairs) -> list[str]:
    """Each window once, equal ones of days in a row together: "Mon to Thu 20:00 – 08:00 (next day)"."""
    rows = sorted((_Row.of(start, end) for start, end in pairs), key=lambda row: (row.day, row.start, row.minutes))
    merged: list[tuple[_Row, int]] = []  # with the last of its days
    for row in rows:
        place = next((at for at, (one, last) in enumerate(merged) if last + 1 == row.day and one.is_like(row)), None)
        if place is None:
            merged.append((row, row.day))
        else:
            merged[place] = (merged[place][0], row.day)
    return [_said(row, last) for row, last in merged]


@dataclass(frozen=True, slots=True)
class _Row:
    day: int
    start: int  # minutes of the day
    minutes: int  # how long

    @classmethod
    def of(cls, start: int, end: int) -> "_Row":
        length = end - start if end > start else end - start + WEEK_MIN
        return cls(start // DAY_MIN, start % DAY_MIN, length)

    def is_like(self, other: "_Row") -> bool:
        return (self.start, self.minutes) == (other.start, other.minutes)

    @property
    def nights(self) -> int:
        """How many midnights it runs over; one that ends at midnight runs over none."""
        return (self.start + self.minutes - 1) // DAY_MIN


def _said(row: _Row, last: int) -> str:
    first = str(WEEKDAYS_ABBR[row.day])
    start, end = clock(row.start), clock(row.start + row.minutes)
    if end == "00:00":
        end = "24:00"
    days = first if last == row.day else _("%(first)s to %(last)s") % {"first": first, "last": WEEKDAYS_ABBR[last]}
    if row.nights == 0:
        return f"{days} {start} – {end}"
    if row.nights == 1 and last != row.day:
        return _("%(days)s %(start)s – %(end)s the next day") % {"days": days, "start": start, "end": end}
    ends_on = (row.day + row.nights) % 7
    return f"{first} {start} – {WEEKDAYS_ABBR[ends_on]} {end}"


@dataclass(frozen=True, slots=True)
class Opening:
    """``closes_at`` None while open: it never closes. ``opens_at``: when it opens next, while it is closed."""

    is_open: bool
    closes_at: datetime | None = None
    opens_at: datetime | None = None


def opening_of(pairs: Pairs, time_zone: str, at: datetime) -> Opening:
    """Whether the windows are open at this instant."""
    windows, at_us = windows_of(pairs), (at - _EPOCH) // timedelta(microseconds=1)
    span = span_at(windows, time_zone, at_us)
    if span is not None:
        return Opening(is_open=True, closes_at=_instant(span.closes_us))
    return Opening(is_open=False, opens_at=_instant(next_opening_us(windows, time_zone, at_us)))


def spans_within(pairs: Pairs, time_zone: str, start: datetime, end: datetime) -> Iterable[tuple[datetime, datetime]]:
    """When the windows are open between the two instants, in order."""
    windows = windows_of(pairs)
    at_us, end_us = ((at - _EPOCH) // timedelta(microseconds=1) for at in (start, end))
    while at_us < end_us:
        span = span_at(windows, time_zone, at_us)
        if span is None:
            opens_us = next_opening_us(windows, time_zone, at_us)
            if opens_us is None or opens_us >= end_us:
                return
            at_us, span = opens_us, span_at(windows, time_zone, opens_us) or Span(opens_us, None)
        closes_us = end_us if span is ALWAYS or span.closes_us is None else min(end_us, span.closes_us)
        yield _EPOCH + timedelta(microseconds=at_us), _EPOCH + timedelta(microseconds=closes_us)
        at_us = closes_us


def _instant(us: int | None) -> datetime | None:
    return None if us is None else _EPOCH + timedelta(microseconds=us)
