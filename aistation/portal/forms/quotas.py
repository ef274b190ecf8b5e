"""The quota page's one form: what was typed for every scope, and which scopes it changes."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from django.core.exceptions import ValidationError
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from aistation.portal.forms.fields import MemoryField, SpanField
from aistation.portal.quota_table import COLUMNS, INPUTS, WEIGHT, Column, Entry, Place, use_text, used_of, written
from aistation.portal.units import thousandths
from aistation.quotas.selectors import GUARANTEED_NAMES

_LARGEST: Final = 2**31 - 1
_UNSAID: Final = {"guaranteed": 0, WEIGHT: 1}
"""What an empty input means where it does not mean unlimited."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}(?:[.,][0-9]{1,6})?")
_FACTORS: Final = {"cards": 1000, "cores": 1000, "memory": 1024, "hours": 3600, "count": 1, "priority": 1, "weight": 1}


def parse(text: str, unit: str) -> int | None:
    """The stored number. None: nothing was typed. Raises ValidationError."""
    text = text.strip()
    if not text:
        return None
    if _NUMBER.fullmatch(text):
        number = Decimal(text.replace(",", ".")) * _FACTORS[unit]
        if number != number.to_integral_value():
            raise ValidationError(_too_fine(unit))
    elif unit == "memory":
        number = Decimal(MemoryField(required=False).to_python(text))
    elif unit == "hours":
        number = Decimal(SpanField(required=False).to_python(text))
    else:
        raise ValidationError(_("Write a number, 0 or more."))
    if unit == "priority" and number > 100:
        raise ValidationError(_("0 to 100."))
    if unit == "weight" and not 1 <= number <= 1000:
        raise ValidationError(_("1 to 1000."))
    if number > _LARGEST:
        raise ValidationError(_("This number is too large."))
    return int(number)


def _too_fine(unit: str) -> str:
    if unit in ("cards", "cores"):
        return _("Three decimals at most.")
    return _("Whole MiB only.") if unit == "memory" else _("A whole number.")


def shown(number: int | None, unit: str) -> str:
    """What stands in an input; `parse` reads it back to the same number."""
    if number is None:
        return ""
    if unit in ("cards", "cores"):
        return thousandths(number)
    if unit == "memory":
        return str(number // 1024) if number % 1024 == 0 else f"{number} MiB"
    if unit == "hours":
        return thousandths(number * 1000 // 3600) if number % 36 == 0 else str(SpanField().prepare_value(number))
    return str(number)


@dataclass(slots=True)
class Input:
    """One field. ``label`` is for screen readers, ``hint`` what an empty one means."""

    name: str
    value: str
    label: str
    hint: str
    errors: list[str] = field(default_factory=list)

    @property
    def html(self) -> SafeString:
        """The element with its errors. A page has thousands, and a template would take a second for them."""
        wrong = said = ""
        if self.errors:
            wrong = format_html(' aria-invalid="true" aria-describedby="{}_error"', self.name)
            said = format_html(
                '<div class="invalid-feedback d-block" id="{}_error">{}</div>', self.name, " ".join(self.errors)
            )
        return format_html(
            '<input class="form-control form-control-sm quota-input{}" name="{}" value="{}" placeholder="{}"'
            ' aria-label="{}" autocomplete="off" inputmode="decimal"{}>{}',
            " is-invalid" if self.errors else "",
            self.name,
            self.value,
            self.hint,
            self.label,
            wrong,
            said,
        )


@dataclass(slots=True)
class Cell:
    column: Column
    inputs: Sequence[Input]
    texts: Sequence[str]  # instead of inputs, where the person may not set them
    use: tuple[int, int | None, str] | None

    @property
    def inputs_html(self) -> SafeString:
        return format_html_join("", "{}", ((one.html,) for one in self.inputs))


@dataclass(slots=True)
class FormRow:
    entry: Entry
    cells: Sequence[Cell]
    seen: str
    errors: list[str] = field(default_factory=list)
    typed: dict[str, int | None] = field(default_factory=dict)

    @property
    def is_changed(self) -> bool:
        return bool(self.typed)

    @property
    def is_wrong(self) -> bool:
        return bool(self.errors) or any(one.errors for cell in self.cells for one in cell.inputs)


class QuotaForm:
    """``data`` None: shows what is stored. Only scopes whose numbers differ from those the page showed are changed,
    and only when these are still the stored ones."""

    def __init__(self, places: Sequence[Place], data: Mapping[str, str] | None = None) -> None:
        self.places = [(place, [self._row(entry, data) for entry in place.entries]) for place in places]

    @property
    def rows(self) -> list[FormRow]:
        return [row for _place, rows in self.places for row in rows]

    @property
    def may_set(self) -> bool:
        return any(row.entry.may_set for row in self.rows)

    @property
    def error_count(self) -> int:
        return sum(row.is_wrong for row in self.rows)

    def changed(self) -> list[FormRow]:
        return [row for row in self.rows if row.is_changed]

    def _row(self, entry: Entry, data: Mapping[str, str] | None) -> FormRow:
        numbers = entry.numbers
        cells = [_cell(entry, column, numbers, data) for column in COLUMNS]
        row = FormRow(entry, cells, _seal(numbers))
        if entry.may_set and data is not None and f"{entry.key}/seen" in data:
            _read(row, numbers, data)
        return row


def _seal(numbers: Mapping[str, int | None]) -> str:
    """The numbers as the page shows them: what the person decides on."""
    return json.dumps([numbers[name] for name in INPUTS], separators=(",", ":"))


def _read(row: FormRow, numbers: Mapping[str, int | None], data: Mapping[str, str]) -> None:
    values: dict[str, int | None] = {}
    for name, one in ((one.name.rsplit("/", 1)[1], one) for cell in row.cells for one in cell.inputs):
        try:
            number = parse(one.value, INPUTS[name])
        except ValidationError as error:
            one.errors += error.messages
            continue
        values[name] = _UNSAID.get(name.rsplit("_", 1)[-1]) if number is None else number
    if not row.entry.has_weight:
        values[WEIGHT] = numbers[WEIGHT]
    if len(values) < len(INPUTS):
        return
    if _seal(values) == data[f"{row.entry.key}/seen"]:
        _show_stored(row, numbers)  # not touched: it shows what is stored by now
    elif _seal(values) != row.seen:
        if data[f"{row.entry.key}/seen"] != row.seen:
            row.errors.append(conflict_text(numbers, values))
        _hold_guarantees(row, values)
        row.typed = values


def _show_stored(row: FormRow, numbers: Mapping[str, int | None]) -> None:
    for cell in row.cells:
        for one in cell.inputs:
            name = one.name.rsplit("/", 1)[1]
            one.value = _shown_input(name, numbers[name])


def conflict_text(stored: Mapping[str, int | None], typed: Mapping[str, int | None]) -> str:
    """Names what is stored where it differs from what was typed."""
    parts = []
    for column in COLUMNS:
        for name in column.inputs:
            if stored[name] != typed[name]:
                number = stored[name]
                value = _("unlimited") if number is None else written(number, column.unit)
                parts.append(f"{_name_of(column, name)}: {value}")
    saved = "; ".join(parts)
    return _("Somebody else changed this row meanwhile. Stored now: %(saved)s. Save again to overwrite it.") % {
        "saved": saved
    }


def _hold_guarantees(row: FormRow, values: Mapping[str, int | None]) -> None:
    for cell in row.cells:
        name = cell.column.name
        if name not in GUARANTEED_NAMES:
            continue
        limit, floor = values[f"{name}_limit"], values[f"{name}_guaranteed"] or 0
        if limit is not None and floor > limit:
            cell.inputs[0].errors.append(_("More than the limit."))


def _shown_input(name: str, number: int | None) -> str:
    return "" if name.endswith("_guaranteed") and not number else shown(number, INPUTS[name])


def _cell(entry: Entry, column: Column, numbers: Mapping[str, int | None], data: Mapping[str, str] | None) -> Cell:
    if column.name == WEIGHT and not entry.has_weight:
        return Cell(column, (), (), None)
    use = used_of(entry.row, column)
    used = None if use is None else (*use, use_text(*use, column.unit))
    if not entry.may_set:
        return Cell(column, (), [_read_only(name, numbers[name], column) for name in column.inputs], used)
    inputs = []
    for name in column.inputs:
        full = f"{entry.key}/{name}"
        value = _shown_input(name, numbers[name])
        if data is not None:
            value = data.get(full, value)[:40]
        hint = str(_UNSAID.get(name.rsplit("_", 1)[-1], "∞"))
        inputs.append(Input(full, value, _label(entry, column, name), hint))
    return Cell(column, inputs, (), used)


def _read_only(name: str, number: int | None, column: Column) -> str:
    if name.endswith("_guaranteed"):
        return _("%(amount)s guaranteed") % {"amount": written(number, column.unit)} if number else ""
    if name == WEIGHT:
        return str(number)
    return _("unlimited") if number is None else _("at most %(amount)s") % {"amount": written(number, column.unit)}


def _label(entry: Entry, column: Column, name: str) -> str:
    who = entry.row.user or entry.row.group
    where = entry.row.pool or _("all pools")
    return f"{_name_of(column, name)}: {who}, {where}"


def _name_of(column: Column, name: str) -> str:
    """Of one input: its column, and which of its numbers it is."""
    if name == WEIGHT:
        return str(column.label)
    kind = _("guaranteed") if name.endswith("_guaranteed") else _("limit")
    return f"{column.label}, {kind}"
