"""Fields that take what people write: "16 GiB", "0.5", "1 h 30 min", and rows of pairs. Integers come out."""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext_lazy as _

_LARGEST: Final = 2**31 - 1  # of the columns
_SIZE: Final = re.compile(r"([0-9]{1,9}(?:[.,][0-9]{1,3})?)\s*(mib|mb|m|gib|gb|g|tib|tb|t)?", re.IGNORECASE)
_FACTORS: Final = {"m": 1, "g": 1024, "t": 1024 * 1024}
_SPAN: Final = re.compile(r"([0-9]{1,9})\s*([a-z\u4e00-\u9fff]*)\s*", re.IGNORECASE)
_SECONDS: Final = {
    "s": 1,
    "sec": 1,
    "秒": 1,
    "m": 60,
    "min": 60,
    "分": 60,
    "分钟": 60,
    "h": 3600,
    "小时": 3600,
    "d": 86_400,
    "天": 86_400,
}


class MemoryField(forms.CharField):
    """MiB. Without a unit GiB are meant, as people say them."""

    def to_python(self, value: object) -> Any:
        text = (super().to_python(value) or "").strip()
        if not text:
            return None
        match = _SIZE.fullmatch(text)
        if match is None:
            raise ValidationError(_("Write it like 16 GiB or 512 MiB."))
        factor = _FACTORS[(match[2] or "g")[0].lower()]
        mib = int(Decimal(match[1].replace(",", ".")) * factor)
        if not 1 <= mib <= _LARGEST:
            raise ValidationError(_("This is no possible amount of memory."))
        return mib

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, int):
            return value
        return f"{value // 1024} GiB" if value % 1024 == 0 else f"{value} MiB"


class CoresField(forms.CharField):
    """Millicores from cores: "0.5" is 500."""

    def to_python(self, value: object) -> Any:
        text = (super().to_python(value) or "").strip().replace(",", ".")
        if not text:
            return None
        try:
            milli = Decimal(text) * 1000
        except InvalidOperation:
            raise ValidationError(_("Write a number of cores like 4 or 0.5.")) from None
        if not milli.is_finite() or milli != milli.to_integral_value() or not 1 <= milli <= _LARGEST:
            raise ValidationError(_("Write a number of cores like 4 or 0.5."))
        return int(milli)

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, int):
            return value
        return f"{value // 1000}.{value % 1000:03d}".rstrip("0").rstrip(".")


class SpanField(forms.CharField):
    """Seconds from "12 h", "90 min", "1 d 6 h". A bare number is ``unit``."""

    def __init__(self, *, unit: str = "h", **rest: Any) -> None:
        super().__init__(**rest)
        self._unit = unit

    def to_python(self, value: object) -> Any:
        text = (super().to_python(value) or "").strip().lower()
        if not text:
            return None
        seconds = position = 0
        while position < len(text):
            match = _SPAN.match(text, position)
            factor = match and _SECONDS.get(match[2] or self._unit)
            if match is None or factor is None:
                raise ValidationError(_("Write it like 12 h, 90 min or 1 d 6 h."))
            seconds += int(match[1]) * factor
            position = match.end()
        if not 1 <= seconds <= _LARGEST:
            raise ValidationError(_("This is no possible span of time."))
        return seconds

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, int):
            return value
        parts = []
        for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
            if value >= size:
                parts.append(f"{value // size} {unit}")
                value %= size
        return " ".join(parts)


class RowsWidget(forms.Widget):
    """Reads inputs that come several times. Templates draw the rows themselves."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names = names

    def value_from_datadict(self, data: Mapping[str, Any], files: object, name: str) -> list[tuple[str, ...]]:
        columns = [data.getlist(column) if isinstance(data, MultiValueDict) else [] for column in self.names]
        length = max(len(column) for column in columns)
        filled = [[*column, *[""] * (length - len(column))] for column in columns]
        return list(zip(*filled, strict=True))

    def value_omitted_from_data(self, data: object, files: object, name: str) -> bool:
        return False


class EnvField(forms.Field):
    """Rows of ``env_name`` and ``env_value``; a row without a name and value is no row."""

    def __init__(self, **rest: Any) -> None:
        super().__init__(required=False, widget=RowsWidget(("env_name", "env_value")), **rest)

    def clean(self, value: Any) -> dict[str, str]:
        env: dict[str, str] = {}
        for name, content in value or []:
            name = name.strip()
            if not name:
                if content:
                    raise ValidationError(_("A value has no name."))
                continue
            if name in env:
                raise ValidationError(_("%(name)s is there twice."), params={"name": name})
            env[name] = content.replace("\r\n", "\n")
        return env


class FoldersField(forms.Field):
    """Rows of ``folder_name``, ``folder_path`` and ``folder_mode``."""

    def __init__(self, **rest: Any) -> None:
        names = ("folder_name", "folder_path", "folder_mode")
        super().__init__(required=False, widget=RowsWidget(names), **rest)

    def clean(self, value: Any) -> list[dict[str, str]]:
        folders = []
        for folder, path, mode in value or []:
            if not folder and not path.strip():
                continue
            if not folder or not path.strip():
                raise ValidationError(_("Each row needs a folder and a path."))
            folders.append({"folder": folder, "path": path.strip(), "mode": mode or "rw"})
        return folders
