"""What the agents report, and what follows from it."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from aistation.core.dispatch import send_once_on_commit
from aistation.fleet import services as fleet
from aistation.workloads.allocations import release_tasks
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
from aistation.workloads.services import announce, apply_event, end_attempt, lock, unended_node_ids


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


@transaction.atomic
def record_task_report(*, node_id: int, report: TaskFacts, now: datetime) -> ReportOutcome:
    """Take in one report. A report that is repeated, late, or of an older attempt changes nothing it should not."""
    found = (
        Task.objects.filter(uid=report.task_uid, node_id=node_id, nonce=report.nonce)
        .values("pk", "attempt__workload_id", "settled_at")
        .first()
    )
    if found is None:
        return ReportOutcome(known=False)
    if found["settled_at"] is not None:
        return ReportOutcome(known=True, settled=True)
    workload, scopes = lock(found["attempt__workload_id"])
    task = Task.objects.select_for_update(no_key=True).select_related("attempt").get(pk=found["pk"])
    phase = Phase(report.phase)
    if moves_on(Phase(task.phase), phase) or _has_news(task, report):
        _store_facts(task, report, now)
        if phase in ENDED:
            release_tasks(workload, scopes, [task.pk], now)
        if workload.kind == Kind.ENVIRONMENT:
            send_once_on_commit("ingress.write_routes")
        if task.attempt.number == workload.attempt and State(workload.state) in HOLDING:
            _draw_conclusions(workload, task.attempt, now)
        else:
            announce(workload)
    settled = settle_if_complete(task, report.log_bytes, now)
    return ReportOutcome(known=True, settled=settled)


def settle_if_complete(task: Task, log_bytes: int | None, now: datetime) -> bool:
    """True when the task has ended and its whole log is here: the node may forget it. ``task`` is locked."""
    if log_bytes is not None and task.log_bytes != log_bytes:
        task.log_bytes = log_bytes
    if Phase(task.phase) not in ENDED or task.log_bytes is None or task.log_stored < task.log_bytes:
        return False
    task.settled_at = now
    task.save(update_fields=["settled_at", "log_bytes"])
    return True


def _has_news(task: Task, report: TaskFacts) -> bool:
    return Phase(task.phase) not in ENDED and (
        report.host_port not in (None, task.host_port)
        or (bool(report.message) and report.message[:1000] != task.message)
    )


def _store_facts(task: Task, report: TaskFacts, now: datetime) -> None:
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
    task.save()


def _draw_conclusions(workload: Workload, attempt: Attempt, now: datetime) -> None:
    """Move the workload to where its tasks together say it is."""
    tasks = list(Task.objects.filter(attempt=attempt))
    outcomes = [TaskOutcome(t.rank, Phase(t.phase), t.exit_code, t.oom_killed, t.error) for t in tasks]
    verdict = judge(outcomes, Reason(workload.stop_reason) if workload.stop_reason else None)
    speaker = next((task for task in tasks if task.rank == verdict.rank), tasks[0])
    if verdict.over and verdict.reason is not None:
        message = workload.message if workload.stop_reason else speaker.message
        exit_code = speaker.exit_code if workload.exit_code is None else workload.exit_code
        end_attempt(workload, verdict.reason, now=now, message=message, exit_code=exit_code, attempt=attempt)
    elif verdict.event is Event.STOP:
        message = f"Task {verdict.rank} failed: {speaker.message or verdict.reason}"
        workload.exit_code = speaker.exit_code  # the first to fail speaks for the job
        apply_event(workload, Event.STOP, now=now, reason=verdict.reason, message=message)
        fleet.bump_desired(unended_node_ids(workload))
    elif verdict.event is not None and _would_move(workload, verdict.event):
        if verdict.event is Event.START:
            attempt.started_at = max((t.started_at for t in tasks if t.started_at), default=now)
            attempt.save(update_fields=["started_at"])
        apply_event(workload, verdict.event, now=now, message=speaker.message)
    else:
        Workload.objects.filter(pk=workload.pk).update(message=speaker.message)
        announce(workload)


def _would_move(workload: Workload, event: Event) -> bool:
    try:
        return next_state(Kind(workload.kind), State(workload.state), event) != workload.state
    except IllegalTransitionError:
        return False
