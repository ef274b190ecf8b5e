"""Waiting for real programs, and looking at them."""

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path


def eventually(is_true: Callable[[], bool], within_s: float = 15) -> None:
    """Return once it is true. AssertionError after the time."""
    deadline = time.monotonic() + within_s
    while not is_true():
        assert time.monotonic() < deadline, "did not become true in time"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def alive(pids: Iterable[int]) -> list[str]:
    """The command lines of those that still run."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):  # it may end between two looks
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if is_alive(pid):
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


def descendants(pid: int) -> set[int]:
    """All processes below one, at this moment."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found - {pid}
        found |= more
