"""The files that Envoy watches. Each is replaced whole, by renaming."""

import fcntl
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from aistation.ingress.envoy import path_of
from aistation.ingress.routes import ORDER, Files, Names, files

_HEAD: Final = re.compile(r'\{"version_info": "(\d+)", "resources": ')


def prepare(directory: Path, names: Names) -> None:
    """Put in place what Envoy needs to start: where a file is missing, one that leads to the portal only."""
    with _alone_in(directory):
        for name, resources in files((), names).items():
            if not path_of(directory, name).exists():
                _replace(directory, name, 0, json.dumps(resources))


def replace(directory: Path, wanted: Files, version: int) -> bool:
    """Bring the files up to ``wanted``, which was read from the database as ``version``.

    True when something was written. What is older than the files, or says the same, changes nothing. A file that
    cannot be read counts as missing.
    """
    texts = {name: json.dumps(wanted[name]) for name in ORDER}
    with _alone_in(directory):
        present = {name: _read(path_of(directory, name)) for name in ORDER}
        if any(found > version for found, _ in present.values()):
            return False
        changed = [name for name in ORDER if present[name][1] != texts[name]]
        for name in changed:
            _replace(directory, name, version, texts[name])
    return bool(changed)


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """One writer at a time on this machine."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (directory / "writer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> tuple[int, str]:
    """The version of a file and the text of its resources; (0, "") when it is not one of ours."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return 0, ""
    head = _HEAD.match(text)
    return (int(head[1]), text[head.end() : -1]) if head and text.endswith("}") else (0, "")


def _replace(directory: Path, name: str, version: int, resources: str) -> None:
    unfinished = directory / f"{name}.new"  # outside the watched folder
    unfinished.write_text(f'{{"version_info": "{version}", "resources": {resources}}}')
    path_of(directory, name).parent.mkdir(exist_ok=True)
    unfinished.rename(path_of(directory, name))
