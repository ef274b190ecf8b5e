"""Reads the devices in a thread of its own, so that a hung driver costs freshness and nothing else."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from agentapi.v1 import DeviceInfo
from gpuagent.devices.base import DeviceProvider, DeviceReading
from gpuagent.threads import Loop

log = logging.getLogger(__name__)

PERIOD_S: Final = 2.0
STALE_AFTER_S: Final = 15.0


class DeviceSampler(Loop):
    """Keeps the last reading and knows how old it is. A card once seen is never dropped, only marked unhealthy."""

    def __init__(self, provider: DeviceProvider, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("devices")
        self._provider = provider
        self._clock = clock
        self._reading = DeviceReading(error="the devices have not been read yet")
        self._read_at = clock()
        self._first = threading.Event()

    def step(self) -> float:
        reading = self._provider.read()
        if reading.error != self._reading.error and self._first.is_set():
            log.warning("devices: %s", reading.error or "they can be read again")
        self._reading, self._read_at = _with_missing(reading, self._reading), self._clock()
        self._first.set()
        return PERIOD_S

    def wait_for_first(self, timeout_s: float) -> bool:
        return self._first.wait(timeout_s)

    def latest(self) -> DeviceReading:
        """The last reading; when it is too old, its cards are unhealthy and without measurements."""
        reading, age = self._reading, self._clock() - self._read_at
        if age <= STALE_AFTER_S or not self._first.is_set():
            return reading
        why = f"the driver has not answered for {int(age)} s"
        return DeviceReading(devices=tuple(_silent(device, why) for device in reading.devices), error=why)


def _with_missing(reading: DeviceReading, before: DeviceReading) -> DeviceReading:
    """The reading, and the cards of the one before that it lacks."""
    present = {device.uuid for device in reading.devices}
    why = reading.error or "the driver does not list this card any more"
    missing = tuple(_silent(device, why) for device in before.devices if device.uuid not in present)
    return DeviceReading(devices=reading.devices + missing, error=reading.error)


def _silent(device: DeviceInfo, why: str) -> DeviceInfo:
    """The card without measurements."""
    return DeviceInfo(
        uuid=device.uuid,
        model=device.model,
        memory_mib=device.memory_mib,
        healthy=False,
        reason=why,
        simulated=device.simulated,
    )
