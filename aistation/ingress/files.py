"""The files that Envoy watches. Replaced whole by renaming, in an order in which nothing is named before it exists."""

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aistation.ingress.routes import ORDER, Files, Names, files, with_leaving

_UNREADABLE: tuple[int, list[dict[str, Any]] | None] = (0, None)


def prepare(directory: Path, names: Names) -> None:
    """Put in place what Envoy needs to start: where a file is missing, one that leads to the portal only."""
    with _alone_in(directory):
        for name, resources in files((), names).items():
            if not (directory / name).exists():
                _replace(directory / name, 0, resources)


def replace(directory: Path, wanted: Files, version: int) -> bool:
    """Bring the files up to ``wanted``, which was read from the database as ``version``.

    True when something was written. What is older than the files, or says the same, changes nothing. A file that
    cannot be read counts as missing.
    """
    with _alone_in(directory):
        found = {name: _read(directory / name) for name in ORDER}
        if any(present > version for present, _ in found.values()):
            return False
        present = {name: resources for name, (_, resources) in found.items() if resources is not None}
        written = False
        for name, resources in with_leaving(wanted, present).items():
            if present.get(name) != list(resources):
                _replace(directory / name, version, resources)
                written = True
        return written


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """One writer at a time on this machine."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (directory / "writer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> tuple[int, list[dict[str, Any]] | None]:
    try:
        content = json.loads(path.read_bytes())
        return int(content["version_info"]), list(content["resources"])
    except (OSError, ValueError, KeyError, TypeError):
        return _UNREADABLE


def _replace(path: Path, version: int, resources: Sequence[dict[str, Any]]) -> None:
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(json.dumps({"version_info": str(version), "resources": resources}))
    unfinished.rename(path)
