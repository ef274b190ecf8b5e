"""Public ids. Random, so that they tell nothing and cannot be guessed; fit for host names."""

import secrets
from typing import Final

_ALPHABET: Final = "abcdefghjkmnpqrstuvwxyz23456789"  # nothing that reads like something else


def new_uid(prefix: str) -> str:
    """An id like ``job-x7f3k2q9ma4c``: 12 characters of 31, about 59 bits."""
    return prefix + "-" + "".join(secrets.choice(_ALPHABET) for _ in range(12))


def new_secret() -> str:
    """A secret of 256 bits, URL-safe."""
    return secrets.token_urlsafe(32)
