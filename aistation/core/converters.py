"""Parts of addresses. What does not look like a name or an id is missing, and never reaches the database.

Importing this module makes ``<name:...>``, ``<uid:...>`` and ``<number:...>`` known.
"""

from django.urls import register_converter
from django.urls.converters import IntConverter, StringConverter

from aistation.core.validation import NAME_PATTERN


class NameConverter(StringConverter):
    """Names that people choose: of a group, user, pool, node, image or profile."""

    regex = NAME_PATTERN


class UidConverter(StringConverter):
    """Ids that we choose: ``job-x7f3k2q9ma4c``."""

    regex = "[a-z]{2,8}-[a-z0-9]{1,40}"


class NumberConverter(IntConverter):
    """Row numbers, as far as a row number can go."""

    regex = "[0-9]{1,18}"


register_converter(NameConverter, "name")
register_converter(UidConverter, "uid")
register_converter(NumberConverter, "number")
