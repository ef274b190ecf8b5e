"""Fields that take what they name and nothing that merely looks like it, and the base of all inputs."""

import re
from collections.abc import Mapping
from typing import Any, Final

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

BIGGEST: Final = 2**31 - 1
"""What PostgreSQL's ``integer`` holds; larger quantities have no meaning here."""
_DIGITS: Final = re.compile(r"-?[0-9]{1,18}")


class Integer(serializers.IntegerField):
    """A JSON integer: neither 2.0 nor "2" nor true. In a range, always."""

    default_error_messages = {"invalid": "Give an integer, without quotes, point or exponent."}

    def __init__(self, low: int = 0, high: int = BIGGEST, **options: Any) -> None:
        super().__init__(min_value=low, max_value=high, **options)

    def to_internal_value(self, data: object) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return data


class QueryInteger(serializers.IntegerField):
    """Decimal digits in a query string."""

    default_error_messages = {"invalid": "Give an integer."}

    def __init__(self, low: int = 0, high: int = BIGGEST, **options: Any) -> None:
        super().__init__(min_value=low, max_value=high, **options)

    def to_internal_value(self, data: object) -> int:
        if not isinstance(data, str) or not _DIGITS.fullmatch(data):
            self.fail("invalid")
        return int(str(data))


class Text(serializers.CharField):
    """A JSON string, kept exactly as it came."""

    default_error_messages = {"invalid": "Give a string."}

    def __init__(self, longest: int, **options: Any) -> None:
        super().__init__(max_length=longest, trim_whitespace=False, **options)

    def to_internal_value(self, data: object) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(data)


class Flag(serializers.BooleanField):
    """true or false."""

    default_error_messages = {"invalid": "Give true or false."}

    def to_internal_value(self, data: object) -> bool:
        if data is not True and data is not False:
            self.fail("invalid")
        return data is True


class QueryFlag(serializers.BooleanField):
    """``true`` or ``false`` in a query string; ``1`` and ``0`` too."""

    default_error_messages = {"invalid": "Give true or false."}

    def to_internal_value(self, data: object) -> bool:
        if data not in ("true", "false", "1", "0"):
            self.fail("invalid")
        return data in ("true", "1")


class Choice(serializers.ChoiceField):
    """One of a closed list of words."""

    default_error_messages = {"invalid_choice": "Choose one of the documented words."}

    def to_internal_value(self, data: object) -> str:
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice", input=data)
        return str(data)


class Input(serializers.Serializer[Any]):
    """A JSON object with known fields only. A field that is not known is a mistake, never ignored."""

    ignored: tuple[str, ...] = ()
    """Fields that answers have and requests may repeat; they change nothing."""
    default_error_messages = {"invalid": "Give a JSON object."}

    def to_internal_value(self, data: object) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            raise serializers.ValidationError(
                {"non_field_errors": [ErrorDetail(str(self.error_messages["invalid"]), "invalid")]}
            )
        unknown = [name for name in data if name not in self.fields and name not in self.ignored]
        faults: dict[str, Any] = {
            str(name): [ErrorDetail("There is no such field.", "unknown_field")] for name in unknown
        }
        try:
            value: dict[str, Any] = super().to_internal_value(data)
        except serializers.ValidationError as error:
            faults = {**error.detail, **faults}  # type: ignore[dict-item]
        if faults:
            raise serializers.ValidationError(faults)
        return value


class Query(Input):
    """The parameters of a query string."""


class Output(serializers.Serializer[Any]):
    """What an answer holds. Says which fields exist; never reads a request."""


class Nothing(Input):
    """A body without fields: empty, or ``{}``."""
