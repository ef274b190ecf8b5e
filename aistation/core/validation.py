"""Names that people choose. One rule for all of them, so that no two can be confused or collide."""

import re
from collections.abc import Mapping
from typing import Final

from aistation.core.errors import FieldError

NAME_PATTERN: Final = r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?"
_NAME: Final = re.compile(NAME_PATTERN)
RESERVED: Final = frozenset(
    {"api", "www", "admin", "static", "agent", "ws", "internal", "portal", "all", "none", "null"}
)


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


_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENV_VALUE_BYTES: Final = 131_071 - 256  # of one NAME=value string, as the kernel takes it, with room for the name
_ENV_TOTAL_BYTES: Final = 1 << 20
_ENV_REFUSED: Final = frozenset({"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT"})


def env_errors(env: Mapping[str, str]) -> list[FieldError]:
    """What no container could take, or would take to slip out of its slice. Values are never part of a message."""
    errors = []
    for name, value in env.items():
        field = f"env.{name[:64]}"
        if not _ENV_NAME.fullmatch(name) or len(name) > 255:
            errors.append(FieldError(field, "bad_name", "Use letters, digits and _ in the name, no digit first."))
        elif name in _ENV_REFUSED or name.startswith(("AISTATION_", "NVIDIA_", "CUDA_VISIBLE_")):
            errors.append(FieldError(field, "reserved_name", f"{name} is set by the platform."))
        if "\x00" in value:
            errors.append(FieldError(field, "nul", "A value cannot hold a NUL character."))
        elif len(value.encode("utf-8", "surrogatepass")) > _ENV_VALUE_BYTES:
            message = f"A value can be {_ENV_VALUE_BYTES} bytes long at most. Put larger things in a folder."
            errors.append(FieldError(field, "too_long", message))
    if sum(len(name) + len(value.encode("utf-8", "surrogatepass")) for name, value in env.items()) > _ENV_TOTAL_BYTES:
        errors.append(FieldError("env", "too_long", "All variables together can be 1 MiB long at most."))
    return errors
