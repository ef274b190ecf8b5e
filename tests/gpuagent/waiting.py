"""Waits for what other processes do, with a deadline."""

import threading
import time
from collections.abc import Callable

_PAUSE = threading.Event()


def wait_until(condition: Callable[[], object], what: str = "", timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or condition}"
        _PAUSE.wait(0.005)
