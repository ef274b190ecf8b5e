"""Starts children in order, starts again what ends, and stops all in reverse order."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aistation.embedded.process import Child, StartError, last_lines

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIRST_DELAY_S: Final = 0.1
_LONGEST_DELAY_S: Final = 10.0
_STEADY_S: Final = 20.0  # up for so long, a child has earned a quick restart again
_TICK_S: Final = 0.5
_SAME_REQUEST_S: Final = 1.0  # make passes on a signal that its whole group has got already


class StopRequestedError(Exception):
    """Somebody asked us to stop while we were starting."""


@dataclass(slots=True)
class _Watched:
    child: Child
    wave: int
    started_at: float = 0.0  # of the monotonic clock
    restart_at: float | None = None
    failures: int = 0


class Supervisor:
    """Watches children from the main thread. Call :meth:`stop_all` in the end, whatever happened."""

    def __init__(self, run_directory: Path, say: Callable[[str], None]) -> None:
        self._run_directory = run_directory
        self._say = say
        self._watched: list[_Watched] = []
        self._stop_asked_at: float | None = None
        self._in_a_hurry = False
        self._wake, wake_in = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_in, False)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        for number in _STOP_SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup means it
                signal.signal(number, self._note_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # wakes us up

    def start(self, child: Child, *, wave: int) -> None:
        """Start a child and keep it running; those of a higher wave stop before it. Does not wait until it is ready."""
        watched = _Watched(child, wave)
        self._watched.append(watched)
        self._spawn(watched)

    def wait_for(self, what: str, is_true: Callable[[], bool], timeout_s: float) -> None:
        """Return once it is true, meanwhile watching the children. StartError after the timeout."""
        deadline = time.monotonic() + timeout_s
        while not is_true():
            if time.monotonic() > deadline:
                raise StartError(f"{what} did not come up within {timeout_s:.0f} s.{self._blame()}")
            self._tick(0.05)

    def run_to_end(self, child: Child, timeout_s: float) -> None:
        """Run a child that ends by itself. StartError when it fails or takes too long."""
        child.spawn()
        try:
            self.wait_for(child.name, lambda: not child.is_running, timeout_s)
        finally:
            child.stop()
        if child.exit_code != 0:
            raise StartError(f"{child.name} failed: {last_lines(child.log)}")

    def run_until_stopped(self) -> None:
        with contextlib.suppress(StopRequestedError):
            while True:
                self._tick(_TICK_S)

    def stop_all(self) -> None:
        """Stop the children wave by wave, the last one first. Another request to stop meanwhile kills them."""
        for wave in sorted({watched.wave for watched in self._watched}, reverse=True):
            self._stop_wave([watched.child for watched in self._watched if watched.wave == wave])
        self._watched.clear()

    def _stop_wave(self, children: list[Child]) -> None:
        for child in children:
            child.send(child.stop_signal)
        begun = time.monotonic()
        for child in children:
            while child.is_running:
                if self._in_a_hurry or time.monotonic() > begun + child.grace_s:
                    child.send(signal.SIGKILL)
                self._sleep(0.02)
            self._pid_file(child).unlink(missing_ok=True)

    def _tick(self, longest_s: float) -> None:
        if self._stop_asked_at is not None:
            raise StopRequestedError
        now = time.monotonic()
        for watched in self._watched:
            self._look_after(watched, now)
        waits = [watched.restart_at - now for watched in self._watched if watched.restart_at is not None]
        self._sleep(max(0.0, min([longest_s, *waits])))
        if self._stop_asked_at is not None:
            raise StopRequestedError

    def _look_after(self, watched: _Watched, now: float) -> None:
        if watched.restart_at is not None:
            if now >= watched.restart_at:
                self._spawn(watched)
            return
        if watched.child.is_running:
            return
        if now - watched.started_at > _STEADY_S:
            watched.failures = 0
        delay = min(_FIRST_DELAY_S * 2**watched.failures, _LONGEST_DELAY_S)
        watched.failures += 1
        watched.restart_at = now + delay
        how = _describe(watched.child.exit_code)
        self._say(f"{watched.child.name} {how}; starting it again in {delay:.1f} s, log {watched.child.log}")

    def _spawn(self, watched: _Watched) -> None:
        watched.restart_at = None
        watched.started_at = time.monotonic()
        watched.child.spawn()
        unfinished = self._run_directory / f"{watched.child.name}.new"
        unfinished.write_text(f"{watched.child.pid}\n")
        unfinished.rename(self._pid_file(watched.child))

    def _pid_file(self, child: Child) -> Path:
        return self._run_directory / f"{child.name}.pid"

    def _blame(self) -> str:
        """What the logs of the children that keep failing say."""
        failing = [watched.child for watched in self._watched if watched.failures]
        return "".join(f"\n{child.name} keeps ending: {last_lines(child.log)}" for child in failing)

    def _note_stop(self, *_: object) -> None:
        now = time.monotonic()
        if self._stop_asked_at is None:
            self._stop_asked_at = now
        elif now > self._stop_asked_at + _SAME_REQUEST_S:
            self._in_a_hurry = True

    def _sleep(self, longest_s: float) -> None:
        """Until a signal comes, at most so long."""
        readable, _, _ = select.select([self._wake], [], [], longest_s)
        if readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)


def _describe(exit_code: int | None) -> str:
    if exit_code is None:
        return "is gone"
    if exit_code < 0:
        return f"was ended by signal {-exit_code}"
    return f"ended with code {exit_code}"
