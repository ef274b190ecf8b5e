"""Figures of the host itself: cores, memory, disk."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostFigures:
    hostname: str
    cpu_milli: int
    memory_mib: int
    simulated: bool = False


def read_host() -> HostFigures:
    """What this machine has. ``cpu_milli`` counts the cores that the agent may use."""
    return HostFigures(
        hostname=socket.gethostname(),
        cpu_milli=1000 * len(os.sched_getaffinity(0)),
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024),
    )


def disk_used_percent(path: Path) -> int | None:
    """How full the file system of ``path`` is for an unprivileged writer, rounded up; None when unreadable."""
    try:
        stat = os.statvfs(path)
    except OSError:
        return None
    used = stat.f_blocks - stat.f_bfree
    usable = used + stat.f_bavail
    return -(-100 * used // usable) if usable else None
