"""What every source of devices offers."""

from dataclasses import dataclass
from typing import Protocol

from agentapi.v1 import DeviceInfo


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """All cards at one instant. ``error`` says why none can be read; the node then offers none."""

    devices: tuple[DeviceInfo, ...] = ()
    error: str = ""


class DeviceProvider(Protocol):
    """A source of devices. ``read`` may hang with the driver: only a sampler thread calls it."""

    def read(self) -> DeviceReading: ...


class NoDevices:
    """A node without cards."""

    def read(self) -> DeviceReading:
        return DeviceReading()
