"""What the agents report, and what follows from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from aistation.audit.services import record
from aistation.core.errors import ConflictError
from aistation.fleet.models import Liveness, Node
from aistation.quotas import services as quotas
from aistation.tenancy.policy import Actor
from aistation.workloads.allocations import release_tasks
from aistation.workloads.batch import Batch
from aistation.workloads.lifecycle import (
    ENDED,
    HOLDING,
    Event,
    IllegalTransitionError,
    Kind,
    Phase,
    Reason,
    State,
    TaskOutcome,
    judge,
    moves_on,
    next_state,
)
from aistation.workloads.models import Attempt, Task, Workload
from aistation.workloads.services import end, follow_end, move

_INTERRUPTED: Final = "node_interrupted"


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One task as its agent sees it; mirrors the wire's TaskReport."""

    task_uid: str
    nonce: str
    phase: str
    exit_code: int | None = None
    oom_killed: bool = False
    error: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = ""
    host_port: int | None = None
    log_bytes: int | None = None
    log_truncated: bool = False


@dataclass(frozen=True, slots=True)
class ReportOutcome:
    """``known``: the task is this node's. ``settled``: its end and its whole log are stored."""

    known: bool
    settled: bool = False


def record_task_report(*, node_id: int, report: TaskFacts, now: datetime) -> ReportOutcome:
    """Take in one report. A report that is repeated, late, or of an older attempt changes nothing it should not."""
    return record_task_reports(node_id=node_id, reports=[report], now=now)[0]


@transaction.atomic
def record_task_reports(*, node_id: int, reports: Sequence[TaskFacts], now: datetime) -> list[ReportOutcome]:
    """Take in the reports of one node, all of them or none, in about a dozen statements whatever their number."""
    known = Task.objects.filter(uid__in=[report.task_uid for report in reports], node_id=node_id).values(
        "pk", "uid", "nonce", "settled_at", "attempt_id", "attempt__workload_id",
        "attempt__workload__group_id", "attempt__workload__user_id", "attempt__workload__pool_id",
    )  # fmt: skip
    rows = {(row["uid"], row["nonce"]): row for row in known}
    found = [rows.get((report.task_uid, report.nonce)) for report in reports]
    fresh = [(report, row) for report, row in zip(reports, found, strict=True) if row and row["settled_at"] is None]
    settled = _record(fresh, now) if fresh else set()
    return [
        ReportOutcome(
            known=row is not None, settled=row is not None and (bool(row["settled_at"]) or row["pk"] in settled)
        )
        for row in found
    ]


@transaction.atomic
def write_off_node(*, node_id: int, node_name: str, now: datetime, actor: Actor) -> int:
    """A person's word that a lost machine is off for good and nothing runs there any more: what it held is free,
    jobs with retries left wait again, the rest ends. How many tasks were written off. Raises ConflictError."""
    if Node.objects.select_for_update(no_key=True).get(pk=node_id).liveness != Liveness.LOST:
        raise ConflictError("Only a lost node can be written off: this one still answers, so drain it instead.")
    tasks = Task.objects.filter(node_id=node_id, settled_at=None).order_by("pk")
    reports = [
        TaskFacts(
            task.uid,
            task.nonce,
            Phase.FAILED,
            error=_INTERRUPTED,
            message=f"Node {node_name} was written off.",
            log_bytes=task.log_stored,
        )
        for task in tasks
    ]
    record_task_reports(node_id=node_id, reports=reports, now=now)
    record(actor, now, "node.write_off", "node", node_name, after={"tasks": len(reports)})
    return len(reports)


def _record(fresh: Sequence[tuple[TaskFacts, Mapping[str, Any]]], now: datetime) -> set[int]:
    """Ids of the tasks that are settled now."""
    owners = {_owner(row) for report, row in fresh if Phase(report.phase) in ENDED}
    scopes = quotas.lock_scopes_of(sorted(owners)) if owners else {}
    batch = Batch.lock({row["attempt__workload_id"] for _, row in fresh}, {row["attempt_id"] for _, row in fresh})
    for report, row in fresh:
        task = batch.tasks[row["pk"]]
        if moves_on(Phase(task.phase), Phase(report.phase)) or _has_news(task, report):
            _take_facts(task, report, now)
            batch.touch(task)
        if report.log_bytes is not None:
            task.log_bytes = report.log_bytes
            batch.changed[task.pk] = task
        if is_complete(task):
            task.settled_at = now
            batch.changed[task.pk] = task
    release_tasks([task for task in batch.touched if Phase(task.phase) in ENDED], scopes, now)
    for attempt in batch.attempts_touched():
        _draw_conclusions(batch, attempt, now)
    batch.write()
    return {row["pk"] for _, row in fresh if batch.tasks[row["pk"]].settled_at is not None}


def _owner(row: Mapping[str, Any]) -> quotas.Owner:
    return (
        row["attempt__workload__group_id"],
        row["attempt__workload__user_id"],
        row["attempt__workload__pool_id"],
    )


def is_complete(task: Task) -> bool:
    """The task has ended and its whole log is here: the node may forget it."""
    return Phase(task.phase) in ENDED and task.log_bytes is not None and task.log_stored >= task.log_bytes


def _has_news(task: Task, report: TaskFacts) -> bool:
    return Phase(task.phase) not in ENDED and (
        report.host_port not in (None, task.host_port)
        or (bool(report.message) and report.message[:1000] != task.message)
    )


def _take_facts(task: Task, report: TaskFacts, now: datetime) -> None:
    if moves_on(Phase(task.phase), Phase(report.phase)):
        task.phase = report.phase
    task.exit_code = report.exit_code
    task.oom_killed = task.oom_killed or report.oom_killed
    task.error = report.error[:32]
    task.message = report.message.replace("\x00", "")[:1000]
    task.container_id = report.container_id[:80] or task.container_id
    task.host_port = report.host_port or task.host_port
    task.started_at = report.started_at or task.started_at
    task.finished_at = report.finished_at or (now if Phase(task.phase) in ENDED else None)
    task.log_truncated = report.log_truncated


def _draw_conclusions(batch: Batch, attempt: Attempt, now: datetime) -> None:
    """Move the workload to where its tasks together say it is."""
    workload, tasks = batch.workloads[attempt.workload_id], batch.tasks_of(attempt)
    if attempt.number != workload.attempt or State(workload.state) not in HOLDING:
        return
    outcomes = [TaskOutcome(t.rank, Phase(t.phase), t.exit_code, t.oom_killed, t.error) for t in tasks]
    verdict = judge(outcomes, Reason(workload.stop_reason) if workload.stop_reason else None)
    speaker = next((task for task in tasks if task.rank == verdict.rank), tasks[0])
    if verdict.over and verdict.reason is not None:
        message = workload.message if workload.stop_reason else speaker.message
        exit_code = speaker.exit_code if workload.exit_code is None else workload.exit_code
        batch.move(end(workload, attempt, verdict.reason, now=now, message=message, exit_code=exit_code))
        batch.attempts[attempt.pk] = attempt
        follow_end(Kind(workload.kind))
    elif verdict.event is Event.STOP:
        message = f"Task {verdict.rank} failed: {speaker.message or verdict.reason}"
        workload.exit_code = speaker.exit_code  # the first to fail speaks for the job
        batch.move(move(workload, Event.STOP, now=now, reason=verdict.reason, message=message))
        batch.nodes_to_tell.update(task.node_id for task in tasks if Phase(task.phase) not in ENDED)
    elif verdict.event is not None and _would_move(workload, verdict.event):
        if verdict.event is Event.START:
            attempt.started_at = max((t.started_at for t in tasks if t.started_at), default=now)
            batch.attempts[attempt.pk] = attempt
        batch.move(move(workload, verdict.event, now=now, message=speaker.message))
    else:
        workload.message = speaker.message
        batch.moved[workload.pk] = workload


def _would_move(workload: Workload, event: Event) -> bool:
    try:
        return next_state(Kind(workload.kind), State(workload.state), event) != workload.state
    except IllegalTransitionError:
        return False
