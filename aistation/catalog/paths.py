"""Where a folder may appear inside a container. Pure."""

import posixpath
import re
from typing import Final

LONGEST_PATH: Final = 255
_FORBIDDEN_TREES: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr"),
    *("/var/lock", "/var/run", "/opt/aistation"),
)
_FORBIDDEN_EXACTLY: Final = ("/", "/var", "/var/lib", "/opt")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f:]")


def container_path(text: str) -> str | None:
    """The normalised form of an absolute path that a folder may be mounted at; None when it may not.

    Refused are relative paths, ``..``, control characters and colons, the root, and the places where a mount would
    change what the system in the container is.
    """
    if not text.startswith("/") or len(text.encode("utf-8", "surrogatepass")) > LONGEST_PATH:
        return None
    if _UNPRINTABLE.search(text) or ".." in text.split("/"):
        return None
    path = "/" + posixpath.normpath(text).lstrip("/")
    if path in _FORBIDDEN_EXACTLY or any(path == tree or path.startswith(tree + "/") for tree in _FORBIDDEN_TREES):
        return None
    return path
