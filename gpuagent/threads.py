"""Threads that do not die: a loop whose step may fail in any way is logged, rested and repeated."""

import logging
import threading
import time
from typing import Final

log = logging.getLogger(__name__)

_LONGEST_REST_S: Final = 5.0


class Loop(threading.Thread):
    """Repeats ``step`` until ``halt``. ``step`` returns how many seconds to rest; ``wake`` cuts the rest short."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._last_alive = time.monotonic()
        self._rests_until = 0.0
        self._woken = threading.Event()
        self._halted = threading.Event()

    def step(self) -> float:
        raise NotImplementedError

    def wake(self) -> None:
        self._woken.set()

    def halt(self) -> None:
        self._halted.set()
        self._woken.set()

    def note_alive(self) -> None:
        """For steps that take long by design: say that this one is not stuck."""
        self._last_alive = time.monotonic()

    @property
    def is_halted(self) -> bool:
        return self._halted.is_set()

    def stuck_s(self) -> float:
        """For how long the present step has been silent; 0 while resting."""
        now = time.monotonic()
        return 0.0 if now < self._rests_until else now - max(self._last_alive, self._rests_until)

    def run(self) -> None:
        failures = 0
        while not self._halted.is_set():
            self._woken.clear()  # before the step: what comes during it wakes the next one
            self._rests_until = 0.0
            self.note_alive()
            try:
                rest_s = self.step()
                failures = 0
            except Exception:
                failures += 1
                rest_s = min(_LONGEST_REST_S, 0.2 * 2 ** min(failures, 10))
                log.exception("%s: step failed %d times in a row, next try in %.1f s", self.name, failures, rest_s)
            self._rests_until = time.monotonic() + rest_s
            self._woken.wait(rest_s)
