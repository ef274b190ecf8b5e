"""What is done to one task: start it, stop it, take note of it, clear it away. Each may take long; none raises."""

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agentapi.v1 import ContainerPhase, DeviceInfo, ErrorCode, TaskSpec
from gpuagent.environment import check_fits, split_devices, task_environment
from gpuagent.folders import bind_folders
from gpuagent.lifecycle import is_ended
from gpuagent.reconcile import ContainerState
from gpuagent.runtime.base import CancelledError, Container, ContainerRuntime, Launch, TaskError
from gpuagent.store import Store
from gpuagent.tasks import LOG_HOLD_S, Task, TaskBook

log = logging.getLogger(__name__)

_PARALLEL_STARTS: Final = 8  # more only make each other slow

_ALIVE: Final[Mapping[ContainerState, ContainerPhase]] = {
    ContainerState.CREATED: ContainerPhase.STARTING,
    ContainerState.RUNNING: ContainerPhase.RUNNING,
    ContainerState.PAUSED: ContainerPhase.PAUSED,
}


class Operations:
    """Acts on tasks by way of the runtime and writes the outcome into the book."""

    def __init__(
        self,
        *,
        runtime: ContainerRuntime,
        book: TaskBook,
        store: Store,
        data_root: Path,
        folder_owner: tuple[int, int] | None,
        devices: Callable[[], Mapping[str, DeviceInfo]],
    ) -> None:
        self._runtime = runtime
        self._book = book
        self._store = store
        self._data_root = data_root
        self._folder_owner = folder_owner
        self._devices = devices
        self._starts = threading.BoundedSemaphore(_PARALLEL_STARTS)

    def start(self, task: Task) -> None:
        """From the order to a running container, unless the task is stopped meanwhile."""
        try:
            self._start(task)
        except CancelledError:
            self._book.update(task, ContainerPhase.GONE, message="stopped before it started", log_bytes=0)
        except TaskError as error:
            self._fail(task, error.code, str(error))
        except Exception as error:
            log.exception("starting task %s failed", task.spec.task_id)
            self._fail(task, ErrorCode.RUNTIME, f"the agent failed: {type(error).__name__}")

    def stop(self, task: Task, container_id: str) -> None:
        """Tell the task why it is to end and how long it has, end its container and report it gone."""
        task.is_stopping = True
        self._give_notice(task.spec)
        try:
            self._runtime.stop(container_id, task.spec.grace_s)
            container = self._runtime.inspect(container_id)
            if container is not None and container.state == ContainerState.CREATED:
                self._runtime.remove(container_id)
                container = None
            self.look(task, container)
        except TaskError as error:
            log.warning("stopping task %s failed: %s", task.spec.task_id, error)
            self._book.update(task, task.phase, message=str(error))
        except Exception:
            log.exception("stopping task %s failed", task.spec.task_id)

    def _give_notice(self, spec: TaskSpec) -> None:
        with contextlib.suppress(OSError):  # a full disk must not keep it running
            self._store.save_notice(spec.task_id, {"reason": spec.stop_reason, "grace_s": spec.grace_s})

    def look(self, task: Task, container: Container | None) -> None:
        """Write down what the runtime says of the task's container now."""
        if is_ended(task.phase):
            if container is not None and container.oom_killed:  # an engine may say so after it told the end
                self._book.update(task, task.phase, oom_killed=True)
        elif container is None:
            self.lose(task)
        elif container.state == ContainerState.EXITED:
            self._end(task, container)
        else:
            self._book.update(
                task,
                _ALIVE[container.state],
                started_at=container.started_at,
                container_id=container.container_id,
                host_port=container.host_port,
                oom_killed=container.oom_killed,
            )

    def adopt(self, task: Task, container: Container) -> None:
        """Watch and log a container that was found rather than started. Harmless to repeat."""
        self._runtime.adopt(container, self._store.log_path(task.spec.task_id), task.spec.log_limit_bytes)
        self.look(task, container)

    def forget(self, task: Task) -> None:
        """The task was stopped and nothing of it is here."""
        self._book.update(task, ContainerPhase.GONE, **self._log_facts(task))

    def lose(self, task: Task) -> None:
        """The task's container is no longer there."""
        error = None if task.is_stopping else ErrorCode.CONTAINER_LOST
        message = "" if task.is_stopping else "the container was removed behind the platform's back"
        self._book.update(task, ContainerPhase.GONE, error=error, message=message, **self._log_facts(task))

    def clear_away(self, task: Task) -> None:
        """Delete a settled task: container, log, files."""
        try:
            if task.report.container_id:
                self._runtime.remove(task.report.container_id)
        except TaskError as error:
            log.warning("removing the container of task %s failed: %s", task.spec.task_id, error)
            return
        self._book.drop(task.spec.task_id)

    def remove_foreign(self, container_id: str, task_id: str) -> None:
        """Delete a container on the server's word, and what the book knew of it."""
        try:
            self._runtime.remove(container_id)
        except TaskError as error:
            log.warning("removing container %s failed: %s", container_id, error)
            return
        task = self._book.get(task_id)
        if task is not None and task.report.container_id == container_id:
            self._book.drop(task_id)

    def _start(self, task: Task) -> None:
        spec = task.spec
        known = self._devices()
        missing = [share.uuid for share in spec.devices if share.uuid not in known]
        if missing:
            raise TaskError(ErrorCode.DEVICE_MISSING, f"this node has no card {', '.join(missing)}")
        env = task_environment(spec, known)
        check_fits(spec.command, env)
        self._runtime.prepare(spec, task.stop_wanted, on_wait=lambda: self._book.update(task, ContainerPhase.PULLING))
        real, _ = split_devices(spec, known)
        with self._starts:
            if task.stop_wanted.is_set():
                raise CancelledError
            self._book.update(task, ContainerPhase.STARTING)
            launch = Launch(
                spec=spec,
                env=env,
                folders=bind_folders(self._data_root, spec.mounts, self._folder_owner),
                real_devices=real,
                log=self._store.log_path(spec.task_id),
                notice=self._store.notice_directory(spec.task_id),
            )
            container = self._runtime.start(launch)
        self.look(task, container)

    def _end(self, task: Task, container: Container) -> None:
        self._runtime.finish_log(container.container_id, LOG_HOLD_S)
        ordered = task.is_stopping and container.error is None
        self._book.update(
            task,
            ContainerPhase.GONE if ordered else ContainerPhase.EXITED,
            exit_code=container.exit_code,
            oom_killed=container.oom_killed,
            error=container.error,
            message=container.message,
            started_at=container.started_at,
            finished_at=container.finished_at,
            container_id=container.container_id,
            host_port=None,
            **self._log_facts(task),
        )

    def _fail(self, task: Task, code: ErrorCode, message: str) -> None:
        log.warning("task %s failed to start: %s: %s", task.spec.task_id, code, message)
        self._book.update(task, ContainerPhase.FAILED, error=code, message=message[:1000], **self._log_facts(task))

    def _log_facts(self, task: Task) -> dict[str, object]:
        """How long the log is in the end, and whether it lost its rest."""
        try:
            reader = self._store.open_log(task.spec.task_id)
        except OSError:
            return {"log_bytes": 0}
        reader.skip_to_end()
        reader.close()
        return {"log_bytes": reader.offset, "log_truncated": reader.is_truncated}
