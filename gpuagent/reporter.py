"""Tells the server what became of the tasks, as soon as it is news and until the server has taken it."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from agentapi.v1 import ForeignContainer, Report
from gpuagent.client import Client, ServerError
from gpuagent.tasks import TaskBook
from gpuagent.threads import Loop

log = logging.getLogger(__name__)

_MAX_TASKS: Final = 500  # of one report
_RETRY_S: Final = 0.5
_LONGEST_RETRY_S: Final = 5.0
_FOREIGN_S: Final = 4.0  # between two tellings of foreign containers


class Reporter(Loop):
    """Sends reports and acts on what the server answers to them."""

    def __init__(
        self,
        client: Client,
        book: TaskBook,
        fingerprint: str,
        *,
        on_answer: Callable[[], None],
        on_remove: Callable[[ForeignContainer], None],
    ) -> None:
        super().__init__("reporter")
        self._client = client
        self._book = book
        self._fingerprint = fingerprint
        self._on_answer = on_answer
        self._on_remove = on_remove
        self._foreign: dict[str, list[ForeignContainer]] = {}  # by task
        self._foreign_round = 0
        self._foreign_due = False
        self._foreign_told = float("-inf")
        self._retry_s = _RETRY_S

    def note_foreign(self, foreign: Iterable[ForeignContainer]) -> None:
        """What the last look at the node found: told every few seconds while there is any, and not at each look,
        since the answer to a report wakes the next look."""
        by_task: dict[str, list[ForeignContainer]] = {}
        for container in foreign:
            by_task.setdefault(container.task_id, []).append(container)
        self._foreign = by_task
        if by_task and time.monotonic() >= self._foreign_told + _FOREIGN_S:
            self._foreign_round += 1
            self._foreign_due = True
            self.wake()

    def step(self) -> float:
        due, rest_s = self._book.due_reports(time.monotonic())
        if not self._client.node_token or not (due or self._foreign_due):
            return rest_s
        sent, foreign = due[:_MAX_TASKS], self._one_of_each() if self._foreign_due else {}
        if self._foreign_due:
            self._foreign_due, self._foreign_told = False, time.monotonic()
        report = Report(
            fingerprint=self._fingerprint,
            version=self._book.version,
            tasks=tuple(task_report for _, _, task_report in sent),
            foreign=tuple(foreign.values()),
        )
        try:
            reply = self._client.report(report)
        except ServerError as error:
            log.debug("report was not taken: %s", error)
            rest_s, self._retry_s = self._retry_s, min(_LONGEST_RETRY_S, 2 * self._retry_s)
            return rest_s
        self._retry_s = _RETRY_S
        self._book.acknowledge(sent, time.monotonic())
        self._book.settle(reply.settled)
        if reply.desired is not None and reply.desired.version > self._book.version:
            self._book.apply(reply.desired)
        for task_id in reply.remove:
            if task_id in foreign:
                self._on_remove(foreign[task_id])
        self._on_answer()
        return 0.0

    def _one_of_each(self) -> dict[str, ForeignContainer]:
        """One foreign container per task: the answer names tasks, and of several at most one is meant."""
        rounds = self._foreign_round
        some = sorted(self._foreign.items())[:_MAX_TASKS]
        return {task_id: containers[rounds % len(containers)] for task_id, containers in some}
