"""One runtime with what the agent around it would do, for the tests that every runtime must pass."""

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker

from agentapi.v1 import RuntimeName, TaskSpec
from gpuagent.environment import task_environment
from gpuagent.reconcile import ContainerState
from gpuagent.runtime.base import BoundFolder, Container, ContainerRuntime, Launch
from gpuagent.spool import STDERR, STDOUT, SpoolReader
from tests.gpuagent.specs import a_spec
from tests.gpuagent.waiting import wait_until


class Rig:
    """Starts tasks on a runtime and reads what became of them. ``folder`` is mounted writable into each task."""

    def __init__(self, make: Callable[[], ContainerRuntime], directory: Path) -> None:
        self._make = make
        self._mark = uuid.uuid4().hex[:8]
        self.directory = directory
        self.folder = directory / "folder"
        self.folder.mkdir(mode=0o777)
        self.folder.chmod(0o777)
        self.changes: list[tuple[float, str | None]] = []
        self._started: list[str] = []
        self.runtime = self.open()

    def open(self) -> ContainerRuntime:
        self.runtime = self._make()
        self.runtime.open(lambda container_id: self.changes.append((time.monotonic(), container_id)))
        return self.runtime

    def restart(self) -> None:
        """What an agent's restart does to the runtime."""
        self.runtime.close()
        self.open()

    @property
    def is_docker(self) -> bool:
        return self.runtime.name == RuntimeName.DOCKER

    def spec(self, *command: str, **changes: Any) -> TaskSpec:
        spec = a_spec(*command, **changes)
        return spec.model_copy(update={"task_id": f"{self._mark}-{spec.task_id}"})

    def log_path(self, spec: TaskSpec) -> Path:
        return self.directory / f"{spec.task_id}.log"

    def notice(self, spec: TaskSpec) -> Path:
        directory = self.directory / f"{spec.task_id}.notice"
        directory.mkdir(exist_ok=True)
        return directory

    def launch(self, spec: TaskSpec) -> Launch:
        return Launch(
            spec=spec,
            env=task_environment(spec, {}),
            folders=(BoundFolder(self.folder, "/folder", read_only=False),),
            real_devices=(),
            log=self.log_path(spec),
            notice=self.notice(spec),
        )

    def start(self, spec: TaskSpec) -> Container:
        self.runtime.prepare(spec, threading.Event(), lambda: None)
        container = self.runtime.start(self.launch(spec))
        self._started.append(container.container_id)
        return container

    def adopt(self, spec: TaskSpec) -> Container:
        container = self.find(spec)
        assert container is not None
        self.runtime.adopt(container, self.log_path(spec), spec.log_limit_bytes)
        return container

    def find(self, spec: TaskSpec) -> Container | None:
        return next((c for c in self.runtime.list() if c.task_id == spec.task_id), None)

    def wait_for_end(self, container: Container, timeout_s: float = 60.0) -> Container:
        def ended() -> Container | None:
            now = self.runtime.inspect(container.container_id)
            return now if now is not None and now.state == ContainerState.EXITED else None

        wait_until(ended, "the end of the container", timeout_s)
        assert self.runtime.finish_log(container.container_id, 30)
        found = ended()
        assert found is not None
        return found

    def run(self, *command: str, **changes: Any) -> tuple[Container, bytes, bytes]:
        """Run a command to its end: the container, its stdout and its stderr."""
        spec = self.spec(*command, **changes)
        container = self.wait_for_end(self.start(spec))
        return container, *self.output(spec)

    def output(self, spec: TaskSpec) -> tuple[bytes, bytes]:
        parts: dict[int, list[bytes]] = {STDOUT: [], STDERR: []}
        reader = SpoolReader(self.log_path(spec))
        while runs := reader.read(1 << 20):
            for stream, _, data in runs:
                parts[stream].append(data)
        reader.close()
        return b"".join(parts[STDOUT]), b"".join(parts[STDERR])

    def pause(self, container_id: str) -> None:
        """Pause a container behind the runtime's back."""
        client = docker.from_env()
        client.containers.get(container_id).pause()
        client.close()

    def is_log_truncated(self, spec: TaskSpec) -> bool:
        reader = SpoolReader(self.log_path(spec))
        reader.skip_to_end()
        reader.close()
        return reader.is_truncated

    def close(self) -> None:
        for container_id in self._started:
            self.runtime.remove(container_id)
        self.runtime.close()
