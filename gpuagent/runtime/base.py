"""What every runtime offers. All calls but ``open`` and ``close`` may take long and may fail with TaskError."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Protocol

from agentapi.v1 import ErrorCode, RuntimeName, TaskSpec
from gpuagent.reconcile import ContainerState


class TaskError(Exception):
    """A task cannot be started, or its container not be handled. The message is for people and holds no secrets."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class CancelledError(Exception):
    """The start was given up before it was done."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container with our labels, as the runtime knows it now. The ``exit_code`` and below speak of its end."""

    task_id: str
    nonce: str
    container_id: str
    state: ContainerState
    started_at: datetime | None = None
    host_port: int | None = None
    exit_code: int | None = None
    oom_killed: bool = False
    error: ErrorCode | None = None
    message: str = ""
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BoundFolder:
    """A folder of the node, checked to lie below the data root, and where the task sees it."""

    source: Path
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class Launch:
    """All that a runtime needs to start one task."""

    spec: TaskSpec
    env: Mapping[str, str]  # complete: the user's, overruled by the platform's
    folders: tuple[BoundFolder, ...]
    real_devices: tuple[str, ...]  # UUIDs to hand in; none for simulated cards
    log: Path  # spool that the runtime fills
    notice: Path  # directory that the task may read: a file `stop` appears there before SIGTERM


@dataclass(frozen=True, slots=True)
class Health:
    """``error`` not empty: nothing can be started now."""

    error: str = ""
    version: str = ""


class ContainerRuntime(Protocol):
    """Starts and watches containers. Its own labels are its memory: nothing is lost with the agent.

    ``open`` takes a callback that is given a container's id whenever that container may have changed, and
    None when any may have.
    """

    name: RuntimeName

    def open(self, on_change: Callable[[str | None], None]) -> None: ...

    def close(self) -> None:
        """Stop watching; containers go on."""

    def health(self) -> Health: ...

    def prepare(self, spec: TaskSpec, cancelled: Event, on_wait: Callable[[], object]) -> None:
        """Make the task's image ready. Calls ``on_wait`` once when that takes time: it is not here yet.

        CancelledError as soon as ``cancelled`` is set.
        """

    def start(self, launch: Launch) -> Container:
        """Start the task. Where its container exists already, that one is used; never a second one."""

    def adopt(self, container: Container, log: Path, log_limit_bytes: int) -> None:
        """Go on watching and logging a container that an earlier agent started. Harmless to repeat."""

    def stop(self, container_id: str, grace_s: int) -> None:
        """SIGTERM, and after ``grace_s`` SIGKILL. Returns when it has ended; harmless when it has already."""

    def inspect(self, container_id: str) -> Container | None:
        """The container as it is now; None when it does not exist."""

    def finish_log(self, container_id: str, timeout_s: float) -> bool:
        """Wait until an ended container's log is wholly in its spool. False: not in time."""

    def list(self) -> tuple[Container, ...]:
        """All containers with our labels, ended ones too."""

    def remove(self, container_id: str) -> None:
        """Kill it if it runs and delete all that is left of it. Harmless when it is gone."""
