"""Loops that outlive their own errors."""

import threading

from gpuagent.threads import Loop
from tests.gpuagent.waiting import wait_until


class _Counter(Loop):
    def __init__(self, rest_s: float, *, fails: int = 0) -> None:
        super().__init__("counter")
        self.steps = 0
        self._rest_s = rest_s
        self._fails = fails
        self.go_on = threading.Event()
        self.go_on.set()

    def step(self) -> float:
        self.steps += 1
        self.go_on.wait()
        if self.steps <= self._fails:
            raise RuntimeError("once more")
        return self._rest_s


def test_an_error_does_not_end_a_loop() -> None:
    """B028."""
    loop = _Counter(0.0, fails=2)
    loop.start()
    wait_until(lambda: loop.steps > 5)
    loop.halt()
    loop.join(5)
    assert not loop.is_alive()


def test_waking_cuts_the_rest_short_and_is_not_lost_during_a_step() -> None:
    loop = _Counter(600.0)
    loop.start()
    wait_until(lambda: loop.steps == 1)
    loop.go_on.clear()
    loop.wake()
    wait_until(lambda: loop.steps == 2)
    loop.wake()  # while a step is under way
    loop.go_on.set()
    wait_until(lambda: loop.steps == 3)
    loop.halt()
    loop.join(5)


def test_a_loop_that_hangs_can_be_told_from_one_that_rests() -> None:
    loop = _Counter(600.0)
    loop.start()
    wait_until(lambda: loop.steps == 1 and loop.stuck_s() == 0.0)
    loop.go_on.clear()
    loop.wake()
    wait_until(lambda: loop.stuck_s() > 0.1)
    loop.go_on.set()
    loop.halt()
    loop.join(5)
