"""Names that people choose. One rule for all of them, so that no two can be confused or collide."""

import re
from typing import Final

from aistation.core.errors import FieldError

NAME_PATTERN: Final = r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?"
_NAME: Final = re.compile(NAME_PATTERN)
RESERVED: Final = frozenset({"api", "www", "admin", "static", "agent", "ws", "internal", "portal", "all", "none", "null"})


def name_error(field: str, value: str) -> FieldError | None:
    """None when ``value`` may name a user, group, pool, node, image, profile or folder."""
    if not _NAME.fullmatch(value) or ".." in value:
        return FieldError(
            field,
            "bad_name",
            "Use 1 to 63 characters: a to z, 0 to 9, and - _ . inside (no two dots in a row).",
        )
    if value in RESERVED:
        return FieldError(field, "reserved_name", f"The name {value} is reserved. Choose another one.")
    return None
