"""Lending rules and warm reserves, with their weekly windows."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from aistation.portal.forms.fields import RowsWidget, SpanField
from aistation.portal.hours import NIGHTS_AND_WEEKENDS, clock
from scheduler.windows import DAY_MIN, WEEK_MIN

COLUMNS: Final = ("from_day", "from_time", "to_day", "to_time")
PRESETS: Final = {"nights": NIGHTS_AND_WEEKENDS}
_CLOCK: Final = re.compile(r"([01]?[0-9]|2[0-4])(?:[:.：]?([0-5][0-9]))?")
_EMPTY_ROW: Final = ("0", "", "0", "")
_MOST: Final = 1 << 20


class WindowsField(forms.Field):
    """Rows of day and time, from and to; a row without times is no row. Pairs of minutes of the week come out."""

    def __init__(self, **rest: Any) -> None:
        super().__init__(required=False, widget=RowsWidget(COLUMNS), **rest)

    def clean(self, value: Any) -> list[list[int]]:
        windows: list[list[int]] = []
        for number, (from_day, from_time, to_day, to_time) in enumerate(value or [], 1):
            if not from_time.strip() and not to_time.strip():
                continue
            start, end = _minute(from_day, from_time), _minute(to_day, to_time)
            if start is None or end is None:
                raise ValidationError(
                    _("Row %(number)s needs two days and two times like 20:00."), params={"number": number}
                )
            if start == end:
                raise ValidationError(
                    _("Row %(number)s begins and ends at the same time. For all week leave all rows empty."),
                    params={"number": number},
                )
            if [start, end] not in windows:
                windows.append([start, end])
        return windows

    def prepare_value(self, value: Any) -> list[tuple[str, str, str, str]]:
        return [row if len(row) == len(COLUMNS) else as_row(row) for row in value or []]


def as_row(pair: Sequence[int]) -> tuple[str, str, str, str]:
    """A window as the form takes it."""
    start, end = pair
    return str(start // DAY_MIN), clock(start), str(end % WEEK_MIN // DAY_MIN), clock(end)


def _minute(day: str, time: str) -> int | None:
    """Of the week. 20:00, 8, 0830; 24:00 is the next day's 0:00."""
    match = _CLOCK.fullmatch(time.strip())
    if match is None or day not in "0123456" or len(day) != 1:
        return None
    minutes = int(match[1]) * 60 + int(match[2] or 0)
    return (int(day) * DAY_MIN + minutes) % WEEK_MIN if minutes <= DAY_MIN else None


class _HoursForm(forms.Form):
    """Common to both: a name that stays, windows, and the clock that they follow."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=63,
        help_text=gettext_lazy("Small letters, digits, and - _ . inside. It stays for good."),
    )
    windows = WindowsField(label=gettext_lazy("When"))
    time_zone = forms.CharField(
        label=gettext_lazy("Time zone"),
        max_length=64,
        help_text=gettext_lazy("Whose clock the times follow, like Europe/Berlin; summer time is kept."),
        widget=forms.TextInput(attrs={"list": "time-zones", "data-own-zone": "", "spellcheck": "false"}),
    )

    only_new: Sequence[str] = ()

    def __init__(self, *args: Any, is_new: bool, **rest: Any) -> None:
        super().__init__(*args, **rest)
        if not is_new:
            for name in self.only_new:
                del self.fields[name]

    def clean_time_zone(self) -> str:
        name: str = self.cleaned_data["time_zone"].strip()
        if name not in available_timezones():
            raise ValidationError(_("There is no such time zone. Write it like Europe/Berlin or Asia/Shanghai."))
        return name

    def _choose(self, field: str, names: Sequence[str]) -> None:
        if field in self.fields:
            chosen = self.fields[field]
            assert isinstance(chosen, forms.ChoiceField)  # noqa: S101 - for the type checker
            chosen.choices = [(name, name) for name in names]


class LendingForm(_HoursForm):
    only_new = ("name", "lender", "borrower")

    lender = forms.ChoiceField(label=gettext_lazy("Cards of pool"))
    borrower = forms.ChoiceField(label=gettext_lazy("run jobs of the queue of pool"))
    take_back = forms.ChoiceField(
        label=gettext_lazy("How cards come back"),
        choices=[
            ("wait", gettext_lazy("wait: only jobs that end in time are let in")),
            ("checkpoint", gettext_lazy("checkpoint: jobs are asked to save, leave, and go on later")),
        ],
        initial="wait",
        widget=forms.RadioSelect,
    )
    notice = SpanField(
        label=gettext_lazy("Notice"),
        unit="min",
        required=False,
        help_text=gettext_lazy("Jobs are asked to leave so long before the window closes. Like 15 min."),
    )
    keep_free_cards = forms.IntegerField(
        label=gettext_lazy("Cards that stay free"), min_value=0, max_value=_MOST, initial=0, required=False
    )
    keep_free_slices = forms.IntegerField(
        label=gettext_lazy("Slices that stay free"), min_value=0, max_value=_MOST, initial=0, required=False
    )
    enabled = forms.BooleanField(label=gettext_lazy("In force"), required=False, initial=True)

    def __init__(self, lenders: Sequence[str], borrowers: Sequence[str], *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._choose("lender", lenders)
        self._choose("borrower", borrowers)

    def values(self) -> dict[str, Any]:
        """As `fleet.services` takes them. The form is valid."""
        given = self.cleaned_data
        return {
            **{name: given[name] for name in ("windows", "time_zone", "take_back", "enabled")},
            "keep_free_slices": given["keep_free_slices"] or 0,
            "keep_free_cards": given["keep_free_cards"] or 0,
            "notice_s": given["notice"] or 0,
        }


class ReserveForm(_HoursForm):
    only_new = ("name", "pool")

    pool = forms.ChoiceField(label=gettext_lazy("Pool"))
    slices = forms.IntegerField(
        label=gettext_lazy("Slices"),
        min_value=1,
        max_value=_MOST,
        help_text=gettext_lazy("For environments, in use or free. Lent cards are taken back for it."),
    )

    def __init__(self, pools: Sequence[str], *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._choose("pool", pools)

    def values(self) -> dict[str, Any]:
        """As `fleet.services` takes them. The form is valid."""
        return {name: self.cleaned_data[name] for name in ("slices", "windows", "time_zone")}


def typed(data: MultiValueDict[str, str], fields: Mapping[str, forms.Field]) -> dict[str, Any]:
    """What was typed so far, as the initial values of a form that is shown again unchecked."""
    found: dict[str, Any] = {}
    for name, field in fields.items():
        if isinstance(field, WindowsField):
            found[name] = field.widget.value_from_datadict(data, {}, name)
        elif isinstance(field, forms.BooleanField):
            found[name] = name in data
        else:
            found[name] = data.get(name, "")
    return found


def with_preset(rows: Sequence[Sequence[str]], preset: str) -> list[Sequence[str]]:
    """The rows with those of the preset that are not among them; without the empty ones. ``row``: one more row."""
    if preset not in PRESETS:
        return [*rows, _EMPTY_ROW] if preset == "row" else list(rows)
    wanted = [as_row(pair) for pair in PRESETS[preset]]
    filled = [row for row in rows if row[1].strip() or row[3].strip()]
    return [*filled, *(row for row in wanted if tuple(row) not in {tuple(one) for one in filled})]
