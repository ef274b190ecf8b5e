"""The data directory of `quickstart`: its folders, its secrets, and what the programs are told of them."""

import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a first start makes up and every later one keeps. ``username`` and ``token`` empty: not made yet."""

    secret_key: str
    password: str
    username: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are below the data directory."""

    root: Path

    def log(self, name: str) -> Path:
        return self.root / "log" / f"{name}.log"

    @property
    def run(self) -> Path:
        """Process numbers, one file for each program."""
        return self.root / "run"

    @property
    def credentials(self) -> Path:
        return self.root / "credentials.json"

    def node(self, name: str) -> Path:
        return self.root / "nodes" / name

    def create(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o711 if os.geteuid() == 0 else 0o700)  # root's PostgreSQL is another user, who passes through
        for path in (self.root / "log", self.run, self.root / "nodes", self.root / "folders", self.root / "gateway"):
            path.mkdir(exist_ok=True)
            path.chmod(0o700)

    def load_secrets(self) -> Secrets:
        """The secrets of this directory, made up when there are none."""
        path = self.root / "secrets.json"
        if path.exists():
            return Secrets(**json.loads(path.read_text()))
        made_up = Secrets(secret_key=secrets.token_urlsafe(48), password=secrets.token_urlsafe(15))
        self.save_secrets(made_up)
        return made_up

    def save_secrets(self, values: Secrets) -> None:
        write_private(self.root / "secrets.json", json.dumps(asdict(values)))


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads, whole or not at all."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)


def is_port_free(port: int) -> bool:
    """True when nobody listens on this loopback port and we may."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
