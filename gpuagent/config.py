"""What the agent was told on its command line. Values only: nothing here touches the machine."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

_SIMULATED: Final = re.compile(r"simulated:(\d{1,3})x([A-Za-z0-9][A-Za-z0-9_.-]{0,63})")
_TASK_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class RuntimeChoice(StrEnum):
    AUTO = "auto"  # Docker when its engine answers, else plain processes
    DOCKER = "docker"
    PROCESS = "process"


class GpuKind(StrEnum):
    AUTO = "auto"  # NVML when its library is there, else none
    NVML = "nvml"
    NONE = "none"
    SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """Where the node's cards come from; ``count`` and ``model`` speak of simulated ones only."""

    kind: GpuKind
    count: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """Everything one agent needs to know before it starts."""

    server: str
    token_file: Path
    node_name: str
    state_dir: Path
    data_root: Path
    runtime: RuntimeChoice = RuntimeChoice.AUTO
    gpus: GpuChoice = GpuChoice(GpuKind.AUTO)
    address: str = "127.0.0.1"
    container_user: str = "1000:1000"  # uid:gid in containers; empty: what the image says
    images_dir: Path | None = None  # recipes of the process runtime; None: none are known
    recipes_dir: Path | None = None  # where they are installed; None: in the state directory
    end_processes: bool = False  # plain processes end when the agent is told to stop, as when the machine does


def parse_gpus(text: str) -> GpuChoice:
    """``auto``, ``nvml``, ``none`` or ``simulated:<count>x<model>``. ValueError on anything else."""
    if found := _SIMULATED.fullmatch(text):
        return GpuChoice(GpuKind.SIMULATED, int(found[1]), found[2])
    if text in {GpuKind.AUTO, GpuKind.NVML, GpuKind.NONE}:
        return GpuChoice(GpuKind(text))
    raise ValueError(f"{text!r} is none of auto, nvml, none, simulated:8xV100-32GB")


def parse_user(text: str) -> str:
    """``uid:gid`` in figures, or ``image`` for the image's own. ValueError on anything else."""
    if text == "image":
        return ""
    if re.fullmatch(r"\d{1,9}:\d{1,9}", text):
        return text
    raise ValueError(f"{text!r} is neither UID:GID nor 'image'")


def is_safe_id(task_id: str) -> bool:
    """True when the id may be used as a file name and in a container's name."""
    return _TASK_ID.fullmatch(task_id) is not None
