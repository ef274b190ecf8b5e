"""The smallest HTTP client: asks a program of this machine whether it is up."""

import http.client
import socket
from pathlib import Path


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def status_of(where: int | Path, path: str, timeout_s: float = 2) -> int | None:
    """The status that a loopback port or a unix socket answers a GET with; None: no answer."""
    connection = (
        _UnixConnection(where, timeout_s)
        if isinstance(where, Path)
        else http.client.HTTPConnection("127.0.0.1", where, timeout=timeout_s)
    )
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
