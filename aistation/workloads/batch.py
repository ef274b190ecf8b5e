"""Rows of several workloads, locked together, changed in memory, and written with one statement a table."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Self

from aistation.core.bulk import update_rows
from aistation.core.dispatch import send_once_on_commit
from aistation.fleet import services as fleet
from aistation.workloads.lifecycle import Kind
from aistation.workloads.models import Attempt, Task, Transition, Workload
from aistation.workloads.services import ENDED_ATTEMPT, MOVED, announce

_REPORTED: Final = (
    "phase", "exit_code", "oom_killed", "error", "message", "container_id", "host_port", "started_at", "finished_at",
    "log_truncated", "log_bytes", "settled_at",
)  # fmt: skip


@dataclass(slots=True)
class Batch:
    """Call `lock` in a transaction, after the quota scopes are locked."""

    workloads: dict[int, Workload]
    tasks: dict[int, Task]
    changed: dict[int, Task] = field(default_factory=dict)
    touched: list[Task] = field(default_factory=list)
    """Tasks with news, from which something may follow."""
    moved: dict[int, Workload] = field(default_factory=dict)
    attempts: dict[int, Attempt] = field(default_factory=dict)
    transitions: list[Transition] = field(default_factory=list)
    nodes_to_tell: set[int] = field(default_factory=set)

    @classmethod
    def lock(cls, workload_ids: Collection[int], attempt_ids: Collection[int]) -> Self:
        """These workloads, and all tasks of these attempts."""
        workloads = Workload.objects.select_for_update(no_key=True).filter(pk__in=workload_ids).order_by("pk")
        by_id = {workload.pk: workload for workload in workloads}
        tasks = Task.objects.select_for_update(no_key=True, of=("self",)).filter(attempt__in=attempt_ids)
        return cls(by_id, {task.pk: task for task in tasks.select_related("attempt").order_by("pk")})

    def touch(self, task: Task) -> None:
        self.changed[task.pk] = task
        self.touched.append(task)

    def attempts_touched(self) -> list[Attempt]:
        """In id order, each once."""
        return [attempt for _, attempt in sorted({task.attempt_id: task.attempt for task in self.touched}.items())]

    def tasks_of(self, attempt: Attempt) -> list[Task]:
        return [task for task in self.tasks.values() if task.attempt_id == attempt.pk]

    def move(self, transition: Transition) -> None:
        self.transitions.append(transition)
        self.moved[transition.workload_id] = self.workloads[transition.workload_id]

    def write(self) -> None:
        update_rows(list(self.changed.values()), _REPORTED)
        update_rows(list(self.moved.values()), MOVED)
        update_rows(list(self.attempts.values()), ENDED_ATTEMPT)
        Transition.objects.bulk_create(self.transitions)
        fleet.bump_desired(self.nodes_to_tell)
        touched = {task.attempt.workload_id for task in self.touched}
        for workload_id in sorted(touched):
            announce(self.workloads[workload_id])
        if any(self.workloads[workload_id].kind == Kind.ENVIRONMENT for workload_id in touched):
            send_once_on_commit("ingress.write_routes")
