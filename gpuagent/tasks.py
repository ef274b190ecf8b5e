"""The tasks that this agent knows: what the server ordered, how far each has come, what it must still be told."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from agentapi.v1 import ContainerPhase, Desired, ErrorCode, TaskReport, TaskSpec
from gpuagent.config import is_safe_id
from gpuagent.lifecycle import is_ended, may_follow
from gpuagent.reconcile import Wanted
from gpuagent.store import Store

LOG_HOLD_S: Final = 2.0  # how long the report of an end waits for the last bytes of its log
_REPEAT_S: Final = 5.0  # an end that the server has not settled is told again
_REFRESH_S: Final = 60.0  # everything else is told again, should the server have forgotten
_GIVE_UP_LOG_S: Final = 3600.0  # a settled task's log that nobody takes is deleted after this
_REMEMBERED: Final = 10_000  # settled ids that are never started again


@dataclass(slots=True)
class Task:
    """One task. The book alone changes it; ``stop_wanted`` may be waited on anywhere."""

    spec: TaskSpec
    report: TaskReport
    stop_wanted: threading.Event = field(default_factory=threading.Event)
    is_busy: bool = False
    is_stopping: bool = False  # its end from here on is the server's order
    is_desired: bool = True
    is_log_stored: bool = False  # the server holds the whole log, or does not want it
    is_settled: bool = False
    news: int = 1  # rises with each change of the report
    told: int = 0  # the news that the server has acknowledged
    told_at: float = 0.0
    ended_at: float = 0.0

    @property
    def phase(self) -> ContainerPhase:
        return self.report.phase


class TaskBook:
    """Thread-safe table of tasks, kept on disk. ``on_news`` is called whenever there is something to report."""

    def __init__(self, store: Store, boot_id: str, on_news: Callable[[], None]) -> None:
        self._store = store
        self._boot_id = boot_id
        self._on_news = on_news
        self._lock = threading.RLock()
        self._tasks: dict[str, Task] = {}
        self._done: dict[str, None] = {}  # ids that must never be started again, oldest first
        self.version = -1  # of the desired state that is held; -1: none yet

    def load(self) -> None:
        """Read what an earlier agent left. Its last orders hold until the server gives new ones."""
        for stored in self._store.load_tasks():
            report = stored.report or _first_report(stored.spec)
            task = Task(stored.spec, report, ended_at=time.monotonic() if is_ended(report.phase) else 0.0)
            if stored.spec.stop:
                task.stop_wanted.set()
            self._tasks[stored.spec.task_id] = task

    def apply(self, desired: Desired) -> None:
        """Take over a desired state. Tasks that it leaves out stay in the book until they are settled."""
        with self._lock:
            wanted = {spec.task_id: spec for spec in desired.tasks if is_safe_id(spec.task_id)}
            for task in self._tasks.values():
                task.is_desired = task.spec.task_id in wanted
            for spec in wanted.values():
                self._order(spec)
            self.version = desired.version

    def wanted(self) -> dict[str, Wanted]:
        """All tasks, for the pure diff."""
        with self._lock:
            return {
                task_id: Wanted(
                    nonce=task.spec.nonce,
                    stop=task.stop_wanted.is_set(),
                    phase=task.phase,
                    busy=task.is_busy,
                    desired=task.is_desired,
                )
                for task_id, task in self._tasks.items()
            }

    def get(self, task_id: str) -> Task | None:
        with self._lock:
            return self._tasks.get(task_id)

    def all(self) -> tuple[Task, ...]:
        with self._lock:
            return tuple(self._tasks.values())

    def claim(self, task_id: str) -> Task | None:
        """Reserve a task for one operation; None when it is unknown or reserved already."""
        with self._lock:
            task = self._tasks.get(task_id)
            if task is None or task.is_busy:
                return None
            task.is_busy = True
            return task

    def release(self, task: Task) -> None:
        with self._lock:
            task.is_busy = False

    def update(self, task: Task, phase: ContainerPhase, **changes: object) -> bool:
        """Note how far a task has come. False, with nothing changed: its phase cannot become this one."""
        with self._lock:
            if phase != task.phase and not may_follow(task.phase, phase):
                return False
            report = task.report.model_copy(update={"phase": phase, **changes})
            if report == task.report:
                return True
            task.report = report
            task.news += 1
            if is_ended(phase) and not task.ended_at:
                task.ended_at = time.monotonic()
            if self._tasks.get(report.task_id) is task:
                self._store.save_report(report, self._boot_id)
        self._on_news()
        return True

    def fail(self, task: Task, code: ErrorCode, message: str) -> bool:
        return self.update(task, ContainerPhase.FAILED, error=code, message=message[:1000])

    def note_log_stored(self, task: Task) -> None:
        """The server has the task's log: nothing holds its report back any more."""
        task.is_log_stored = True
        self._on_news()

    def due_reports(self, now: float) -> tuple[list[tuple[Task, int, TaskReport]], float]:
        """Reports to send now, each with its task and news, and in how many seconds to look again."""
        due, rest_s = [], _REPEAT_S
        with self._lock:
            for task in self._tasks.values():
                wait_s = _wait_s(task, now)
                if wait_s <= 0:
                    due.append((task, task.news, task.report))
                else:
                    rest_s = min(rest_s, wait_s)
        return due, rest_s

    def acknowledge(self, sent: Iterable[tuple[Task, int, TaskReport]], now: float) -> None:
        with self._lock:
            for task, news, _ in sent:
                task.told, task.told_at = max(task.told, news), now

    def clearable(self, now: float) -> list[Task]:
        """Settled tasks whose log is at the server too, or was refused for so long that it never will be."""
        with self._lock:
            return [
                task
                for task in self._tasks.values()
                if task.is_settled and not task.is_busy and (task.is_log_stored or now - task.ended_at > _GIVE_UP_LOG_S)
            ]

    def settle(self, task_ids: Iterable[str]) -> None:
        """The server has stored the end of these. What has not ended here is left alone."""
        with self._lock:
            for task_id in task_ids:
                task = self._tasks.get(task_id)
                if task is not None and is_ended(task.phase):
                    task.is_settled = True

    def drop(self, task_id: str) -> None:
        """Forget a task and its files for good; it is never started again."""
        with self._lock:
            self._done[task_id] = None
            while len(self._done) > _REMEMBERED:
                del self._done[next(iter(self._done))]
            self._tasks.pop(task_id, None)
            self._store.remove_task(task_id)

    def _order(self, spec: TaskSpec) -> None:
        task = self._tasks.get(spec.task_id)
        if task is None:
            if spec.task_id in self._done:
                return
            self._store.save_spec(spec)
            task = self._tasks[spec.task_id] = Task(spec, _first_report(spec))
        elif task.spec.nonce != spec.nonce:
            return  # ids are never used twice: what runs here keeps its nonce and the server will not know it
        elif task.spec != spec:
            self._store.save_spec(spec)
            task.spec = spec
        if spec.stop:
            task.stop_wanted.set()


def _first_report(spec: TaskSpec) -> TaskReport:
    return TaskReport(task_id=spec.task_id, nonce=spec.nonce, phase=ContainerPhase.UNKNOWN)


def _wait_s(task: Task, now: float) -> float:
    """Seconds until the task's report is due."""
    if task.is_settled or task.phase == ContainerPhase.UNKNOWN:
        return _REPEAT_S
    if task.news != task.told:
        held = is_ended(task.phase) and not task.is_log_stored
        return task.ended_at + LOG_HOLD_S - now if held else 0.0
    return task.told_at + (_REPEAT_S if is_ended(task.phase) else _REFRESH_S) - now
