"""What every source of devices offers."""

from typing import Protocol

from agentapi.v1 import DeviceInfo, Message


class DeviceReading(Message):
    """All cards at one instant. ``error`` says why none can be read; the node then offers none."""

    devices: tuple[DeviceInfo, ...] = ()
    error: str = ""


class DeviceProvider(Protocol):
    """A source of devices. ``read`` may hang with the driver: only a sampler thread calls it."""

    def read(self) -> DeviceReading: ...

    def close(self) -> None: ...


class NoDevices:
    """A node without cards."""

    def read(self) -> DeviceReading:
        return DeviceReading()

    def close(self) -> None:
        return None
