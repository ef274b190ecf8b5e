"""What a simulated week comes to, for people: a table of numbers and the cards by the hour."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.dates import WEEKDAYS_ABBR
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from aistation.portal import units
from aistation.portal.charts import Chart, Series, Tick, levels, line, share, stacked

BEFORE: Final = "now"
AFTER: Final = "changed"
_ROWS: Final = (
    ("twelve_hour_equivalents_per_week", gettext_lazy("12-hour jobs of one card a week")),
    ("hours_per_card_per_day", gettext_lazy("hours in use of each card and day")),
    ("allocation_percent", gettext_lazy("cards in use, %")),
    ("utilisation_percent", gettext_lazy("utilisation, %")),
    ("environments_per_week", gettext_lazy("environments a week")),
    ("environments_unserved_per_week", gettext_lazy("environments that never got a place")),
    ("preemptions_per_week", gettext_lazy("interruptions a week")),
    ("lost_card_hours_per_week", gettext_lazy("card hours lost to them")),
    ("lent_card_hours_per_week", gettext_lazy("card hours lent")),
)
_WAITS: Final = (
    ("environment_wait_s", gettext_lazy("environments wait, half / 95 % / longest")),
    ("job_wait_s", gettext_lazy("jobs wait, half / 95 % / longest")),
)
_BLOCK: Final = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A number of each scenario, in their order."""

    label: str
    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Week:
    """The chart, and the same as a table: by day, for each ``_BLOCK`` hours the mean of each scenario."""

    chart: Chart
    heads: Sequence[str]
    days: Sequence[tuple[str, Sequence[str]]]


Results = Mapping[str, Mapping[str, Any]]


def lines_of(results: Results) -> list[Line]:
    found = [Line(str(label), [_number(one[name]) for one in results.values()]) for name, label in _ROWS]
    found += [Line(str(label), [_waits(one[name]) for one in results.values()]) for name, label in _WAITS]
    groups = sorted({group for one in results.values() for group in one["share_per_group"]})
    for group in groups:
        label = _("share of group %(name)s, %%") % {"name": group}
        found.append(Line(label, [_number(100 * one["share_per_group"].get(group, 0)) for one in results.values()]))
    return found


def week_of(results: Results) -> Week:
    curves = {name: [round(percent) for percent in one["hourly_allocation_percent"]] for name, one in results.items()}
    last = curves.get(AFTER, curves[BEFORE])
    label = _("Cards in use by the hour of the week, in percent: %(mean)s on average.") % {
        "mean": sum(last) // len(last)
    }
    chart = Chart(
        label=label,
        areas=stacked([Series("after", _("with the change") if AFTER in curves else _("as it is"), last)], 100),
        lines=[line(Series("before", _("as it is"), curves[BEFORE]), 100)] if AFTER in curves else (),
        ticks=[Tick(share(2 * day + 1, 14), str(WEEKDAYS_ABBR[day])) for day in range(7)],
        levels=levels(100, " %"),
    )
    days = [
        (
            str(WEEKDAYS_ABBR[day]),
            [
                " → ".join(f"{sum(curve[at : at + _BLOCK]) // _BLOCK} %" for curve in curves.values())
                for at in range(24 * day, 24 * day + 24, _BLOCK)
            ],
        )
        for day in range(7)
    ]
    return Week(chart, [f"{hour}–{hour + _BLOCK} h" for hour in range(0, 24, _BLOCK)], days)


def _number(value: float) -> str:
    return number_format(round(value, 1), decimal_pos=1)


def _waits(waits: Mapping[str, float]) -> str:
    return " / ".join(units.duration(round(waits[key])) for key in ("p50", "p95", "max"))
