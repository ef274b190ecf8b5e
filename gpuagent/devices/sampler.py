"""Reads the devices in a thread of its own, so that a hung driver costs freshness and nothing else."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gpuagent.devices.base import DeviceProvider, DeviceReading
from gpuagent.threads import Loop

PERIOD_S: Final = 2.0
STALE_AFTER_S: Final = 15.0


class DeviceSampler(Loop):
    """Keeps the last reading and knows how old it is."""

    def __init__(self, provider: DeviceProvider, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("devices")
        self._provider = provider
        self._clock = clock
        self._reading = DeviceReading(error="the devices have not been read yet")
        self._read_at = clock()
        self._first = threading.Event()

    def step(self) -> float:
        reading = self._provider.read()
        self._reading, self._read_at = reading, self._clock()
        self._first.set()
        return PERIOD_S

    def wait_for_first(self, timeout_s: float) -> bool:
        return self._first.wait(timeout_s)

    def latest(self) -> DeviceReading:
        """The last reading. One that is too old keeps its cards, marked unhealthy, and says so."""
        reading, age = self._reading, self._clock() - self._read_at
        if age <= STALE_AFTER_S or not self._first.is_set():
            return reading
        why = f"the driver has not answered for {int(age)} s"
        devices = tuple(d.model_copy(update={"healthy": False, "reason": why}) for d in reading.devices)
        return replace(reading, devices=devices, error=why)
