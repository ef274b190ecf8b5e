"""All of AIStation in one foreground process: `python manage.py quickstart`.

The stores come up while this process loads the code once; then it forks web, worker and beat and starts the agents.
"""

import dataclasses
import gc
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from aistation.embedded import options, programs
from aistation.embedded.directories import DirectoryInUseError, DirectoryLock, socket_directory
from aistation.embedded.envoy import Envoy
from aistation.embedded.http import status_of
from aistation.embedded.layout import Layout, is_port_free, write_private
from aistation.embedded.options import Options
from aistation.embedded.postgres import Postgres
from aistation.embedded.process import Child, StartError, bind_to_parent
from aistation.embedded.supervisor import StopRequestedError, Supervisor
from aistation.embedded.valkey import Valkey
from aistation.ingress.envoy import gateway_secret

_DATABASE: Final = "aistation"
_START_TIMEOUT_S: Final = 120
_NODES_TIMEOUT_S: Final = 20
_STORES, _SERVER, _BACKGROUND = range(3)  # waves: the last one stops first


def main(arguments: list[str]) -> int:
    """Run until somebody asks to stop. The exit status: 0 after that, 1 when it could not start."""
    if "MAKELEVEL" in os.environ:  # make passes on what asks it to stop, but not what kills it
        bind_to_parent(signal.SIGTERM)
    chosen = options.parse(arguments)
    layout = Layout(chosen.data_dir)
    layout.create()
    lock = DirectoryLock(layout.root)
    try:
        lock.acquire()
    except DirectoryInUseError as error:
        return _refuse(str(error))
    if not is_port_free(chosen.port):
        return _refuse(f"Port {chosen.port} of 127.0.0.1 is in use. Choose another one with --port.")
    supervisor = Supervisor(layout.run, _say)
    try:
        _Quickstart(chosen, layout, supervisor).start()
        supervisor.run_until_stopped()
    except StopRequestedError:
        pass
    except (StartError, OSError) as error:
        _refuse(str(error))
        return 1
    finally:
        _say("stopping")
        supervisor.stop_all()
        _say("stopped; everything is kept, start again to go on")
    return 0


class _Quickstart:
    """The steps of a start, in order."""

    def __init__(self, chosen: Options, layout: Layout, supervisor: Supervisor) -> None:
        self._options = chosen
        self._layout = layout
        self._supervisor = supervisor
        self._secrets = layout.load_secrets()
        self._url = f"http://localhost:{chosen.port}"
        self._web_socket = socket_directory(layout.root / "socket") / "web.sock"

    def start(self) -> None:
        begun = time.monotonic()
        layout = self._layout
        layout.credentials.unlink(missing_ok=True)  # it is there only while all of it can be used
        postgres = Postgres(layout.root / "postgres", log=layout.log("postgres"))
        valkey = Valkey(layout.root / "valkey", log=layout.log("valkey"))
        gateway = Envoy(
            layout.root / "gateway",
            port=self._options.port,
            web_socket=self._web_socket,
            secret=gateway_secret(self._secrets.secret_key),
            log=layout.log("gateway"),
        )
        listener = programs.listen(self._web_socket)
        postgres.prepare()
        gateway.prepare()
        self._run(postgres.child, _STORES)
        self._run(valkey.child, _STORES)
        self._run(gateway.child, _SERVER)
        self._tell_settings(postgres, valkey)
        programs.load()
        gc.freeze()  # what is loaded by now stays shared with the children
        self._wait("PostgreSQL", postgres.child)
        postgres.create_database(_DATABASE)
        self._wait("Valkey", valkey.child)
        self._run(programs.web(listener, layout), _SERVER)
        join_tokens = self._bootstrap()
        self._run(programs.worker(layout), _BACKGROUND)
        self._run(programs.beat(layout), _BACKGROUND)
        self._wait_for_server()
        self._start_agents(join_tokens)
        self._announce(time.monotonic() - begun)

    def _run(self, child: Child, wave: int) -> None:
        self._supervisor.start(child, wave=wave)
        _say(f"{child.name}: process {child.pid}, log {_short(child.log)}")

    def _wait(self, what: str, child: Child) -> None:
        self._supervisor.wait_for(what, child.is_ready, _START_TIMEOUT_S)

    def _tell_settings(self, postgres: Postgres, valkey: Valkey) -> None:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "aistation.settings.dev")
        os.environ.update(
            AISTATION_SECRET_KEY=self._secrets.secret_key,
            AISTATION_URL=self._url,
            AISTATION_DATABASE_URL=postgres.url(_DATABASE),
            AISTATION_REDIS_URL=valkey.url,
            AISTATION_GATEWAY_DIR=str(self._layout.root / "gateway"),
            AISTATION_FOLDERS_ROOT=str(self._layout.root / "folders"),
            AISTATION_ALLOW_PROCESS_RUNTIME="true",
        )

    def _bootstrap(self) -> Mapping[str, str]:
        """Migrate, and make what a first start needs. Returns the join tokens of nodes that have not joined yet."""
        names = [f"node-{number + 1}" for number in range(self._options.gpus.nodes)]
        missing = [name for name in names if not self._has_joined(name)]

        def work() -> Mapping[str, Any]:
            from aistation.embedded.bootstrap import bootstrap, migrate  # noqa: PLC0415 - needs the settings

            migrate()
            return dataclasses.asdict(
                bootstrap(password=self._secrets.password, token=self._secrets.token, joining=missing)
            )

        answer = self._ask("bootstrap", work)
        self._secrets = dataclasses.replace(self._secrets, username=answer["username"], token=answer["token"])
        self._layout.save_secrets(self._secrets)
        join_tokens: Mapping[str, str] = answer["join_tokens"]
        return join_tokens

    def _ask(self, name: str, work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Do something with the database in a child of its own, so that no connection of ours is forked."""
        _say(f"{name}: log {_short(self._layout.log(name))}")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._supervisor.run_to_end(
                programs.once(name, work, self._layout, theirs.fileno()), timeout_s=_START_TIMEOUT_S
            )
            theirs.shutdown(socket.SHUT_WR)
            with ours.makefile() as file:
                answer: dict[str, Any] = json.load(file)
        return answer

    def _has_joined(self, name: str) -> bool:
        return (self._layout.node(name) / "credential.json").exists()

    def _wait_for_server(self) -> None:
        self._supervisor.wait_for("The web server", lambda: self._status("/healthz") == 200, _START_TIMEOUT_S)

    def _start_agents(self, join_tokens: Mapping[str, str]) -> None:
        runtime = self._runtime()
        for number in range(self._options.gpus.nodes):
            name = f"node-{number + 1}"
            state = self._layout.node(name)
            state.mkdir(mode=0o700, exist_ok=True)
            if name in join_tokens:
                write_private(state / "join-token", join_tokens[name])
            server = f"http://127.0.0.1:{self._options.port}"
            child = programs.agent(name, server=server, gpus=self._options.gpus, runtime=runtime, layout=self._layout)
            self._run(child, _BACKGROUND)

    def _runtime(self) -> str:
        runtime = self._options.runtime
        if runtime == "auto":
            runtime = "docker" if _docker_answers() else "process"
        if runtime == "process":
            _say("WARNING: workloads run as plain processes of this machine. That isolates nothing: only for trying.")
        return runtime

    def _announce(self, seconds: float) -> None:
        try:
            self._supervisor.wait_for("A node", lambda: self._status("/readyz") == 200, _NODES_TIMEOUT_S)
        except StartError:
            _say(f"WARNING: no node is ready yet, see {_short(self._layout.log('agent-node-1'))}")
        credentials = {
            "url": self._url,
            "username": self._secrets.username,
            "password": self._secrets.password,
            "token": self._secrets.token,
        }
        write_private(self._layout.credentials, json.dumps(credentials, indent=2) + "\n")
        _say(f"AIStation is up at {self._url} after {seconds:.1f} s; sign in with {_short(self._layout.credentials)}")
        if self._options.gpus.simulated:
            _say("The cards are simulated: programs that need a real GPU will not find one.")
        elif not Path("/proc/driver/nvidia").exists():
            _say("This machine has no NVIDIA driver, so its node has no GPU. Try --gpus simulated:4x8xV100-32GB")

    def _status(self, path: str) -> int | None:
        return status_of(self._options.port, path)


def _docker_answers() -> bool:
    host = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    return host.scheme != "unix" or status_of(Path(host.path), "/_ping") == 200


def _short(path: Path) -> str:
    """Relative to where we were started, when it is below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _refuse(message: str) -> int:
    sys.stderr.write(f"quickstart: {message}\n")
    return 1


def _say(message: str) -> None:
    sys.stdout.write(f"[quickstart] {message}\n")
    sys.stdout.flush()
