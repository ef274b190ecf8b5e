"""Lending windows in local time, also on the days when the clocks change (B036)."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Window
from scheduler.windows import ALWAYS, WEEK_MIN, Span, format_minute, next_opening_us, parse_window, span_at, week_minute

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
NIGHTS = tuple(
    parse_window(f"{day} 20:00", f"{after} 08:00")
    for day, after in zip(("Mon", "Tue", "Wed", "Thu"), ("Tue", "Wed", "Thu", "Fri"), strict=True)
)
WEEKEND = parse_window("Fri 20:00", "Mon 08:00")
LENDING = (*NIGHTS, WEEKEND)
HOUR_US = 3600 * 1_000_000


def us(text: str, zone: str = "UTC") -> int:
    """Microseconds since the epoch of a local time that exists once."""
    instant = datetime.fromisoformat(text)
    known = instant if instant.tzinfo else instant.replace(tzinfo=ZoneInfo(zone))
    return int(known.timestamp()) * 1_000_000


def span(opens: str, closes: str, zone: str = "UTC") -> Span:
    return Span(us(opens, zone), us(closes, zone))


def test_a_window_is_open_from_its_start_to_just_before_its_end() -> None:
    night = span("2026-06-01T20:00", "2026-06-02T08:00")
    assert span_at(LENDING, "UTC", us("2026-06-01T19:59:59")) is None
    assert span_at(LENDING, "UTC", us("2026-06-01T20:00")) == night
    assert span_at(LENDING, "UTC", us("2026-06-02T07:59:59")) == night
    assert span_at(LENDING, "UTC", us("2026-06-02T08:00")) is None


@pytest.mark.parametrize("now", ["2026-06-05T20:00", "2026-06-07T23:59", "2026-06-08T00:00", "2026-06-08T07:59"])
def test_a_window_runs_over_the_week_s_end(now: str) -> None:
    assert span_at(LENDING, "UTC", us(now)) == span("2026-06-05T20:00", "2026-06-08T08:00")


def test_without_windows_it_is_always_open() -> None:
    assert span_at((), BERLIN, us("2026-06-01T12:00")) == ALWAYS
    assert next_opening_us((), BERLIN, us("2026-06-01T12:00")) is None


def test_windows_that_fill_the_week_never_close() -> None:
    days = (parse_window("Mon 00:00", "Thu 12:00"), parse_window("Thu 12:00", "Sun 24:00"))
    assert span_at(days, BERLIN, us("2026-10-25T02:30", BERLIN)) == ALWAYS
    assert span_at((Window(600, 600),), BERLIN, 0) == ALWAYS
    assert next_opening_us(days, BERLIN, 0) is None


def test_windows_that_overlap_or_touch_are_one_span() -> None:
    windows = (
        parse_window("Sat 20:00", "Sun 24:00"),
        parse_window("Mon 00:00", "Mon 06:00"),
        parse_window("Mon 05:00", "Mon 09:00"),
    )
    for now in ("2026-06-06T21:00", "2026-06-08T00:00", "2026-06-08T08:00"):
        assert span_at(windows, "UTC", us(now)) == span("2026-06-06T20:00", "2026-06-08T09:00")


def test_the_next_opening_is_always_ahead() -> None:
    assert next_opening_us(LENDING, "UTC", us("2026-06-01T12:00")) == us("2026-06-01T20:00")
    assert next_opening_us(LENDING, "UTC", us("2026-06-01T20:00")) == us("2026-06-02T20:00")
    assert next_opening_us((WEEKEND,), "UTC", us("2026-06-08T07:00")) == us("2026-06-12T20:00")


def test_b036_a_night_is_an_hour_shorter_or_longer_when_the_clocks_change() -> None:
    lengths = {
        (BERLIN, "2026-03-29T00:30"): 59,
        (BERLIN, "2026-10-25T00:30"): 61,
        (NEW_YORK, "2026-03-08T00:30"): 59,
        (NEW_YORK, "2026-11-01T00:30"): 61,
        (BERLIN, "2026-06-07T00:30"): 60,
    }
    for (zone, now), hours in lengths.items():
        found = span_at((WEEKEND,), zone, us(now, zone))
        assert found is not None
        assert found.closes_us is not None
        assert found.closes_us - found.opens_us == hours * HOUR_US, (zone, now)


def test_b036_a_time_that_does_not_exist_counts_as_the_moment_of_the_change() -> None:
    windows = (parse_window("Sun 02:30", "Sun 05:00"),)
    change = us("2026-03-29T01:00+00:00")  # 02:00 becomes 03:00 in Berlin
    assert next_opening_us(windows, BERLIN, change - HOUR_US) == change
    assert span_at(windows, BERLIN, change) == Span(change, us("2026-03-29T05:00", BERLIN))
    assert span_at(windows, BERLIN, change - 1) is None


def test_b036_a_time_that_exists_twice_counts_the_first_time() -> None:
    windows = (parse_window("Sun 02:30", "Sun 05:00"),)
    first = us("2026-10-25T00:30+00:00")  # 02:30 in summer time; 01:30 UTC is 02:30 once more
    assert span_at(windows, BERLIN, first) == Span(first, us("2026-10-25T05:00", BERLIN))
    assert next_opening_us(windows, BERLIN, first) == us("2026-11-01T02:30", BERLIN)


def test_b036_a_window_inside_the_skipped_hour_does_not_open_that_day() -> None:
    windows = (parse_window("Sun 02:10", "Sun 02:50"),)
    after_change = us("2026-03-29T01:00+00:00")
    assert span_at(windows, BERLIN, after_change) is None
    assert next_opening_us(windows, BERLIN, after_change - HOUR_US) == us("2026-04-05T02:10", BERLIN)


def test_b036_a_zone_whose_clocks_change_by_half_an_hour() -> None:
    windows = (parse_window("Sun 02:15", "Sun 04:00"),)
    spring = us("2026-10-03T15:30+00:00")  # 02:00 becomes 02:30
    assert span_at(windows, LORD_HOWE, spring) == Span(spring, us("2026-10-04T04:00", LORD_HOWE))
    autumn = us("2026-04-05T01:45+11:00")  # 02:00 becomes 01:30, so 01:45 comes twice
    repeated = (parse_window("Sun 01:45", "Sun 03:00"),)
    assert span_at(repeated, LORD_HOWE, autumn) == Span(autumn, us("2026-04-05T03:00", LORD_HOWE))
    assert us("2026-04-05T03:00", LORD_HOWE) - autumn == 105 * 60 * 1_000_000


@given(
    st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, "UTC"]),
    st.lists(st.builds(Window, st.integers(0, WEEK_MIN - 1), st.integers(0, WEEK_MIN)), min_size=1, max_size=4),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 1)),
)
@settings(max_examples=200, deadline=None)
def test_away_from_changes_of_the_clocks_a_span_is_what_the_local_clock_says(
    zone: str, windows: list[Window], naive: datetime
) -> None:
    now = naive.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
    at_us = int(now.timestamp()) * 1_000_000
    found, opening = span_at(windows, zone, at_us), next_opening_us(windows, zone, at_us)
    assert opening is None or opening > at_us
    if found is not None:
        assert found.opens_us <= at_us
        assert found.closes_us is None or at_us < found.closes_us
    around = {(now.astimezone(UTC) + timedelta(hours=hours)).astimezone(now.tzinfo).utcoffset() for hours in (-3, 3)}
    if len(around) == 1:
        minute = now.weekday() * 1440 + now.hour * 60 + now.minute
        is_open = any(
            one.start <= minute < one.end if one.start < one.end else (minute >= one.start or minute < one.end)
            for one in windows
        )
        assert (found is not None) == is_open


def test_thousands_of_questions_are_cheap() -> None:
    start = us("2026-06-01T00:00")
    answers = [span_at(LENDING, BERLIN, start + minute * 60_000_000) for minute in range(0, WEEK_MIN, 5)]
    assert sum(answer is not None for answer in answers) == (4 * 12 + 60) * 12


def test_texts_and_minutes() -> None:
    assert week_minute("Mon 00:00") == 0
    assert week_minute("Sun 24:00") == WEEK_MIN
    assert format_minute(week_minute("Fri 20:05")) == "Fri 20:05"
    for text in ("Friday 20:00", "Fri", "Fri 20", "Fri 24:01", "Fri 20:60", "Fri -1:00", "Fri 8:5", ""):
        with pytest.raises(ValueError, match="time"):
            week_minute(text)
