"""Cards that do not exist, for trying the platform and for its tests. Labelled as simulated everywhere."""

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from agentapi.v1 import DeviceInfo
from gpuagent.devices.base import DeviceReading
from gpuagent.hostinfo import HostFigures

SIMULATED_CPU_MILLI: Final = 48_000
SIMULATED_MEMORY_MIB: Final = 384 * 1024


@dataclass(frozen=True, slots=True)
class Model:
    name: str  # as NVML calls it
    memory_mib: int  # what the driver reports, less than the advertised size


MODELS: Final[Mapping[str, Model]] = MappingProxyType(
    {
        "V100-16GB": Model("Tesla V100-SXM2-16GB", 16_160),
        "V100-32GB": Model("Tesla V100-SXM2-32GB", 32_510),
        "T4-16GB": Model("Tesla T4", 15_360),
        "A100-40GB": Model("NVIDIA A100-SXM4-40GB", 40_960),
        "A100-80GB": Model("NVIDIA A100-SXM4-80GB", 81_920),
        "H100-80GB": Model("NVIDIA H100 80GB HBM3", 81_559),
    }
)


class SimulatedDevices:
    """``count`` cards of one model with UUIDs that stay the same for the same node name."""

    def __init__(self, node_name: str, count: int, model: str) -> None:
        if model not in MODELS:
            raise ValueError(f"unknown simulated model {model!r}; known are {', '.join(sorted(MODELS))}")
        self._devices = tuple(_device(node_name, index, MODELS[model]) for index in range(count))

    def read(self) -> DeviceReading:
        return DeviceReading(devices=self._devices)

    def close(self) -> None:
        return None


def simulated_host(hostname: str) -> HostFigures:
    return HostFigures(hostname, SIMULATED_CPU_MILLI, SIMULATED_MEMORY_MIB, simulated=True)


def _device(node_name: str, index: int, model: Model) -> DeviceInfo:
    digest = hashlib.sha256(f"{node_name}\0{index}".encode()).digest()
    return DeviceInfo(
        uuid=f"GPU-{uuid.UUID(bytes=digest[:16])}",
        model=model.name,
        memory_mib=model.memory_mib,
        reason="simulated: no measurements",
        simulated=True,
    )
