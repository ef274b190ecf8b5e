"""Processes by pid and start time, so that a pid used again is never mistaken for the old one."""

import contextlib
import logging
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gpuagent.runtime.supervisor import read_start_ticks
from gpuagent.threads import Loop

log = logging.getLogger(__name__)

_WATCHER_BEAT_S: Final = 10.0


@contextlib.contextmanager
def open_process(pid: int, ticks: int) -> Iterator[int | None]:
    """A pidfd of the process that started at ``ticks``; None when that one is gone."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield pidfd if _is_it(pid, ticks) else None  # checked after opening: the pid cannot change hands now
    finally:
        os.close(pidfd)


def is_alive(pid: int, ticks: int) -> bool:
    """True while that very process exists and is no zombie."""
    return _is_it(pid, ticks) and _state(pid) not in {"Z", "X", ""}


def is_paused(pid: int) -> bool:
    return _state(pid) in {"T", "t"}


def wait_for_end(pidfd: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(int(timeout_s * 1000)))


def send_signal(pidfd: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal the process group that ``pid`` leads, as schedulers of clusters do."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def find_by_environment(entry: bytes) -> list[int]:
    """Processes that were started with ``entry`` (``NAME=value`` and a NUL) and whose environment we may read."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError):
                environ = (directory / "environ").read_bytes()
                if environ.startswith(entry) or b"\0" + entry in environ:
                    found.append(int(directory.name))
    return found


class EndWatcher(Loop):
    """Calls back within microseconds after a watched process has ended, in one thread for all of them."""

    def __init__(self) -> None:
        super().__init__("processes")
        self._lock = threading.Lock()
        self._watched: dict[int, int] = {}  # pid -> ticks
        self._callbacks: dict[int, tuple[int, Callable[[], None]]] = {}  # pidfd -> pid, callback
        self._poll = select.epoll()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll.register(self._wake_read, select.EPOLLIN)

    def watch(self, pid: int, ticks: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the process ends, also when it has ended already. Harmless to repeat."""
        with self._lock:
            if self._watched.get(pid) == ticks:
                return
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            callback()
            return
        if not _is_it(pid, ticks):
            os.close(pidfd)
            callback()
            return
        with self._lock:
            self._watched[pid] = ticks
            self._callbacks[pidfd] = (pid, callback)
        self._poll.register(pidfd, select.EPOLLIN | select.EPOLLONESHOT)

    def halt(self) -> None:
        super().halt()
        os.write(self._wake_write, b"x")

    def step(self) -> float:
        for fd, _ in self._poll.poll(_WATCHER_BEAT_S):
            if fd != self._wake_read:
                self._end(fd)
        return 0.0

    def _end(self, pidfd: int) -> None:
        with self._lock:
            pid, callback = self._callbacks.pop(pidfd)
            self._watched.pop(pid, None)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        try:
            callback()
        except Exception:
            log.exception("noting the end of process %d failed", pid)


def _is_it(pid: int, ticks: int) -> bool:
    try:
        return read_start_ticks(pid) == ticks
    except OSError:
        return False


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""
