"""The agent's main loop: what the server wants, what the node has, what is to be done about the difference."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from agentapi.v1 import ForeignContainer
from gpuagent import reconcile as r
from gpuagent.client import Client, ServerError
from gpuagent.operations import Operations
from gpuagent.reporter import Reporter
from gpuagent.runtime.base import Container, ContainerRuntime, TaskError
from gpuagent.standing import Standing
from gpuagent.tasks import Task, TaskBook
from gpuagent.threads import Loop

log = logging.getLogger(__name__)

PERIOD_S: Final = 5.0  # between two looks at everything, when nothing happens
_RETRY_S: Final = 1.0
_CLEANERS: Final = 4


class ReconcileLoop(Loop):
    """Level-triggered: each step works from the whole desired state and the whole list of containers."""

    def __init__(
        self,
        *,
        client: Client,
        runtime: ContainerRuntime,
        book: TaskBook,
        operations: Operations,
        standing: Standing,
        reporter: Reporter,
    ) -> None:
        super().__init__("reconcile")
        self._client = client
        self._runtime = runtime
        self._book = book
        self._operations = operations
        self._standing = standing
        self._reporter = reporter
        self._cleaners = ThreadPoolExecutor(_CLEANERS, thread_name_prefix="clean")
        self._server_version: int | None = None  # the latest heard of; None: unknown, so ask

    def note_version(self, version: int | None) -> None:
        """The server holds this version of the desired state (None: some other one)."""
        self._server_version = version
        if version != self._book.version:
            self.wake()

    def note_change(self, container_id: str | None) -> None:
        """The runtime's word that a container, or any, may have changed. Quick when one has ended."""
        container = None if container_id is None else self._runtime.inspect(container_id)
        task = None if container is None else self._book.get(container.task_id)
        if container is None or task is None or task.spec.nonce != container.nonce:
            self.wake()
        elif self._standing.may_touch:
            self._operations.look(task, container)

    def remove_foreign(self, container: ForeignContainer) -> None:
        """Delete, in the background, what the server knows and has finished with."""
        self._cleaners.submit(self._operations.remove_foreign, container.container_id, container.task_id)

    def step(self) -> float:
        if not self._standing.may_touch:
            return PERIOD_S
        rest_s = self._fetch()
        wanted = self._book.wanted()  # before the containers: what starts in between is busy here
        try:
            containers = {container.container_id: container for container in self._runtime.list()}
        except TaskError as error:
            log.warning("the containers cannot be listed: %s", error)
            return _RETRY_S
        seen = [r.Seen(c.task_id, c.nonce, c.container_id, c.state) for c in containers.values()]
        foreign = []
        for action in r.reconcile(wanted, seen):
            if isinstance(action, r.ReportForeign):
                foreign.append(_foreign(action))
            else:
                self._act(action, containers)
        self._reporter.note_foreign(foreign)
        for task in self._book.clearable(time.monotonic()):
            self._in_background(task, self._cleaners.submit, self._operations.clear_away, task)
        return rest_s

    def halt(self) -> None:
        super().halt()
        self._cleaners.shutdown(wait=False, cancel_futures=True)

    def _fetch(self) -> float:
        """Fetch the desired state when the server has another one. How long to rest afterwards."""
        held = self._book.version
        if not self._standing.may_start or (held >= 0 and self._server_version == held):
            return PERIOD_S
        asked_for = self._server_version
        try:
            desired = self._client.desired()
        except ServerError as error:
            log.debug("the desired state cannot be fetched: %s", error)
            return _RETRY_S
        if self._book.version == held or desired.version > self._book.version:
            self._book.apply(desired)
        if self._server_version == asked_for:
            self._server_version = desired.version
        return PERIOD_S

    def _act(self, action: r.Action, containers: dict[str, Container]) -> None:
        task = self._book.get(action.task_id)
        if task is None:
            return
        if isinstance(action, r.Stop):
            task.stop_wanted.set()
            if action.container_id:
                self._in_background(task, _in_thread, self._operations.stop, task, action.container_id)
        elif isinstance(action, r.Start):
            if self._standing.may_start:
                self._in_background(task, _in_thread, self._operations.start, task)
        elif isinstance(action, r.Adopt):
            self._operations.adopt(task, containers[action.container_id])
        elif isinstance(action, r.Forget):
            self._operations.forget(task)
        elif isinstance(action, r.Lose):
            self._operations.lose(task)

    def _in_background(
        self, task: Task, submit: Callable[..., object], work: Callable[..., None], *args: object
    ) -> None:
        """Do ``work`` elsewhere while the task is marked busy, and look again afterwards."""
        if self._book.claim(task.spec.task_id) is None:
            return

        def run() -> None:
            try:
                work(*args)
            finally:
                self._book.release(task)
                self.wake()

        submit(run)


def _in_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="task", daemon=True).start()


def _foreign(action: r.ReportForeign) -> ForeignContainer:
    return ForeignContainer(task_id=action.task_id, nonce=action.nonce, container_id=action.container_id)
