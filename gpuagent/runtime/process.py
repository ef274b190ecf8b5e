"""Tasks as plain processes of the host, for trying the platform where there is no engine. Isolates nothing.

Each container is a folder: ``labels.json`` is written before anything runs, the supervisor writes the rest
(see supervisor.py). The command sees the node's own files, runs in its first writable folder with HOME
there, and finds the port that it shall listen on in AISTATION_PORT.
"""

import contextlib
import errno
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agentapi.v1 import ErrorCode, RuntimeName, TaskSpec
from gpuagent.identity import boot_id
from gpuagent.reconcile import ContainerState
from gpuagent.runtime import processes
from gpuagent.runtime.base import Container, Health, Launch, TaskError
from gpuagent.runtime.recipes import Prepared, RecipeBook

_START_TIMEOUT_S: Final = 15.0
_KILL_TIMEOUT_S: Final = 10.0
_LOOK_S: Final = 0.01
_INTERRUPT_GRACE_S: Final = 2
_INTERRUPTED: Final = "interrupted"  # in a container's folder: it was ended because the node stops
_EXEC_ERRORS: Final[Mapping[int, ErrorCode]] = {
    errno.ENOENT: ErrorCode.IMAGE_UNFIT,
    errno.EACCES: ErrorCode.IMAGE_UNFIT,
    errno.ENOEXEC: ErrorCode.IMAGE_UNFIT,
}


class ProcessRuntime:
    """A ContainerRuntime over supervisors. A container's id is its task's."""

    name = RuntimeName.PROCESS

    def __init__(self, root: Path, recipes: RecipeBook) -> None:
        self._containers = root / "containers"
        self._containers.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._recipes = recipes
        self._boot_id = boot_id()
        self._nursery = _Nursery(root / "supervisor.log")
        self._watcher = processes.EndWatcher()
        self._on_change: Callable[[str | None], None] = lambda _: None

    def open(self, on_change: Callable[[str | None], None]) -> None:
        self._on_change = on_change
        self._watcher.start()
        self._nursery.ensure()

    def close(self) -> None:
        self._watcher.halt()
        self._nursery.close()

    def health(self) -> Health:
        return Health(version=f"Linux {platform.release()}")

    def prepare(self, spec: TaskSpec, cancelled: threading.Event, on_wait: Callable[[], object]) -> None:
        self._recipes.prepare(spec.image, cancelled, on_wait)

    def start(self, launch: Launch) -> Container:
        spec = launch.spec
        prepared = self._recipes.find(spec.image)
        command = spec.command or prepared.command
        if not command:
            raise TaskError(ErrorCode.BAD_SPEC, "there is no command to run")
        folder = self._containers / spec.task_id
        folder.mkdir(exist_ok=True, mode=0o700)
        cwd = next((f.source for f in launch.folders if not f.read_only), folder / "work")
        cwd.mkdir(exist_ok=True, mode=0o700)
        port = _label(folder, spec)
        request = {
            "directory": str(folder),
            "boot_id": self._boot_id,
            "spool": str(launch.log),
            "spool_limit": spec.log_limit_bytes,
            "cwd": str(cwd),
            "command": list(command),
            "env": _environment(launch, prepared, cwd, port),
        }
        answer = self._nursery.ask(request)
        if answer.get("error") in {errno.EBUSY, errno.EEXIST}:  # an earlier agent asked for it already
            return self._wait_for_start(folder)
        if "error" in answer:
            code = _EXEC_ERRORS.get(answer["error"], ErrorCode.BAD_SPEC)
            shutil.rmtree(folder, ignore_errors=True)
            raise TaskError(code, f"cannot run {Path(command[0]).name[:100]}: {answer['message']}")
        return self._watched(folder)

    def adopt(self, container: Container, log: Path, log_limit_bytes: int) -> None:
        self._watched(self._containers / container.container_id)

    def stop(self, container_id: str, grace_s: int) -> None:
        run = _read_json(self._containers / container_id / "run.json")
        if run is None or run["boot_id"] != self._boot_id:
            return
        with processes.open_process(run["supervisor"], run["supervisor_ticks"]) as supervisor:
            if supervisor is None:
                _kill_orphans(container_id)
                return
            with processes.open_process(run["pid"], run["pid_ticks"]) as command:
                if command is not None and grace_s > 0:
                    processes.signal_group(run["pid"], signal.SIGTERM)
                    processes.signal_group(run["pid"], signal.SIGCONT)
                    if processes.wait_for_end(supervisor, grace_s):
                        return
                if command is not None:
                    processes.send_signal(command, signal.SIGKILL)
            if not processes.wait_for_end(supervisor, _KILL_TIMEOUT_S):
                raise TaskError(ErrorCode.RUNTIME, f"process {run['pid']} cannot be killed")

    def interrupt_all(self) -> None:
        """End everything that runs, as the end of the machine would: no task is to blame."""
        running = [c.container_id for c in self.list() if c.state in (ContainerState.RUNNING, ContainerState.PAUSED)]
        for container_id in running:
            (self._containers / container_id / _INTERRUPTED).touch(mode=0o600)
        with ThreadPoolExecutor(max_workers=32) as pool:
            list(pool.map(lambda container_id: self.stop(container_id, _INTERRUPT_GRACE_S), running))

    def inspect(self, container_id: str) -> Container | None:
        return self._read(self._containers / container_id)

    def finish_log(self, container_id: str, timeout_s: float) -> bool:
        return True  # the supervisor writes the last byte before it says that the command has ended

    def list(self) -> tuple[Container, ...]:
        found = (self._read(folder) for folder in sorted(self._containers.iterdir()))
        return tuple(container for container in found if container is not None)

    def remove(self, container_id: str) -> None:
        self.stop(container_id, 0)
        shutil.rmtree(self._containers / container_id, ignore_errors=True)

    def _wait_for_start(self, folder: Path) -> Container:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            container = self._watched(folder)
            if container.state != ContainerState.CREATED:
                return container
            time.sleep(_LOOK_S)
        raise TaskError(ErrorCode.RUNTIME, "another supervisor does not get the command started")

    def _watched(self, folder: Path) -> Container:
        """Watch the container's supervisor and say how the container is now."""
        run = _read_json(folder / "run.json")
        if run is not None and run["boot_id"] == self._boot_id:
            container_id = folder.name
            self._watcher.watch(run["supervisor"], run["supervisor_ticks"], lambda: self._on_change(container_id))
        container = self._read(folder)
        if container is None:
            raise TaskError(ErrorCode.CONTAINER_LOST, "the process's folder vanished")
        return container

    def _read(self, folder: Path) -> Container | None:
        labels = _read_json(folder / "labels.json")
        if labels is None:
            return None
        base = Container(
            task_id=labels["task_id"],
            nonce=labels["nonce"],
            container_id=folder.name,
            state=ContainerState.CREATED,
            host_port=labels["port"],
        )
        run = _read_json(folder / "run.json")
        if run is None:
            end = _read_json(folder / "exit.json")
            return base if end is None else _unstarted(base, end)
        alive = run["boot_id"] == self._boot_id and processes.is_alive(run["supervisor"], run["supervisor_ticks"])
        end = _read_json(folder / "exit.json")  # after the look at the supervisor, which writes it last
        if alive and end is None:
            return _running(base, run)
        ended = _ended(base, run, end, self._boot_id)
        if (folder / _INTERRUPTED).exists():
            message = "it was ended because this machine's agent stopped"
            return replace(ended, exit_code=None, error=ErrorCode.NODE_INTERRUPTED, message=message)
        return ended


class _Nursery:
    """The small interpreter that forks supervisors; started when needed, again if it dies."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self) -> socket.socket:
        with self._lock:
            if self._control is None or self._process is None or self._process.poll() is not None:
                self._control = self._start()
            return self._control

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """Hand one request to a new supervisor and return what it says."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                try:
                    socket.send_fds(self.ensure(), [b"1"], [theirs.fileno()])
                except OSError as error:
                    raise TaskError(ErrorCode.RUNTIME, "the supervisors' interpreter died") from error
            ours.settimeout(_START_TIMEOUT_S)
            try:
                ours.sendall(json.dumps(request).encode())
                ours.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: ours.recv(64 * 1024), b""))
                body: dict[str, Any] = json.loads(answer)
            except (OSError, ValueError) as error:
                raise TaskError(ErrorCode.RUNTIME, "the supervisor did not answer") from error
            return body

    def close(self) -> None:
        with self._lock:
            if self._control is not None:
                self._control.close()
            if self._process is not None:
                self._process.wait(_KILL_TIMEOUT_S)
            self._control = self._process = None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        source_root = Path(__file__).parents[2]
        program = f"import sys; sys.path.insert(0, {str(source_root)!r}); "
        program += f"from gpuagent.runtime import supervisor; supervisor.main({theirs.fileno()})"
        fd = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with theirs, os.fdopen(fd, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
            )
        return ours


def _environment(launch: Launch, prepared: Prepared, cwd: Path, port: int | None) -> dict[str, str]:
    """What the command finds: the node's PATH and little else of the agent's own environment."""
    spec = launch.spec
    path = os.environ.get("PATH", os.defpath)
    own = {"LANG": "C.UTF-8", "HOME": str(cwd), "PATH": path}
    if prepared.venv is not None:
        own |= {"PATH": f"{prepared.venv / 'bin'}:{path}", "VIRTUAL_ENV": str(prepared.venv)}
    cards = ",".join(share.uuid for share in spec.devices)
    place = {
        "AISTATION_WORKSPACE": str(cwd),
        "AISTATION_STOP_FILE": str(launch.notice / "stop"),
        "AISTATION_FOLDERS": json.dumps({folder.target: str(folder.source) for folder in launch.folders}),
        "CUDA_VISIBLE_DEVICES": cards,
        "NVIDIA_VISIBLE_DEVICES": cards or "void",
    }
    if port is not None:
        place["AISTATION_PORT"] = str(port)
    return {**own, **launch.env, **place}


def _label(folder: Path, spec: TaskSpec) -> int | None:
    """Write the container's labels, unless an earlier try did, and return the port in them."""
    labels = _read_json(folder / "labels.json")
    if labels is None or labels["nonce"] != spec.nonce:
        port = _free_port() if spec.port is not None else None
        labels = {"task_id": spec.task_id, "nonce": spec.nonce, "workload_id": spec.workload_id, "port": port}
        temporary = folder / ".labels.json.tmp"
        temporary.write_text(json.dumps(labels), encoding="utf-8")
        temporary.replace(folder / "labels.json")
    found: int | None = labels["port"]
    return found


def _read_json(path: Path) -> dict[str, Any] | None:
    """None when the file is not there or, after a crash of the machine, not whole."""
    try:
        body = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return body if isinstance(body, dict) else None


def _running(base: Container, run: Mapping[str, Any]) -> Container:
    paused = processes.is_paused(run["pid"])
    state = ContainerState.PAUSED if paused else ContainerState.RUNNING
    return replace(base, state=state, started_at=_instant(run["started_at"]))


def _ended(base: Container, run: Mapping[str, Any], end: Mapping[str, Any] | None, boot: str) -> Container:
    started_at = _instant(run["started_at"])
    if end is not None:
        left = end["left_behind"]
        return replace(
            base,
            state=ContainerState.EXITED,
            started_at=started_at,
            exit_code=end["code"],
            finished_at=_instant(end["finished_at"]),
            message=f"{left} processes could not be killed" if left else "",
        )
    if run["boot_id"] != boot:
        error, message = ErrorCode.NODE_INTERRUPTED, "the node was restarted"
    else:
        error, message = ErrorCode.CONTAINER_LOST, "the process's supervisor was killed"
        _kill_orphans(base.container_id)
    return replace(base, state=ContainerState.EXITED, started_at=started_at, error=error, message=message)


def _unstarted(base: Container, end: Mapping[str, Any]) -> Container:
    code = _EXEC_ERRORS.get(end["error"], ErrorCode.BAD_SPEC)
    return replace(base, state=ContainerState.EXITED, error=code, message=f"cannot run the command: {end['message']}")


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _kill_orphans(task_id: str) -> None:
    """End what is left of a task whose supervisor died: processes that carry its id in their environment."""
    mark = f"AISTATION_TASK_ID={task_id}\0".encode()
    for pid in processes.find_by_environment(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
