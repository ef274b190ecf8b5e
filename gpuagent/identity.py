"""Who this agent is: the lock on its state directory and the fingerprint that a clone cannot share."""

import fcntl
import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Who this agent says it is. ``token_file`` holds the join token that makes it a node."""

    node_name: str
    token_file: Path
    fingerprint: str
    boot_id: str
    agent_version: str
    address: str


class StateDirInUseError(Exception):
    """Another agent holds the state directory."""


def lock_state_dir(state_dir: Path) -> int:
    """Take the directory for this process and return the descriptor that holds it until the process ends."""
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(state_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise StateDirInUseError(f"another agent runs on {state_dir}") from None
    return fd


def fingerprint(state_dir: Path) -> str:
    """The same after a restart; another one on a copied machine, host or state directory."""
    stat = state_dir.stat()
    parts = (_machine_id(), socket.gethostname(), str(stat.st_dev), str(stat.st_ino))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def boot_id() -> str:
    """The kernel's name for the time since the last boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _machine_id() -> str:
    for path in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        try:
            return path.read_text(encoding="ascii").strip()
        except OSError:
            continue
    return ""
