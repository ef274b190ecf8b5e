"""Writes of jobs."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from aistation.core.dispatch import send_once_on_commit
from aistation.core.errors import ConflictError, InvalidInputError
from aistation.quotas.selectors import applying_scopes
from aistation.tenancy.policy import Actor
from aistation.workloads.lifecycle import WAITING, Kind, State, is_terminal
from aistation.workloads.models import Workload
from aistation.workloads.services import announce, audit, create_workload
from aistation.workloads.submission import Submission, check, check_queue_length, priority_errors


@transaction.atomic
def submit_job(*, actor: Actor, submission: Submission, now: datetime) -> Workload:
    """Queue a job. Raises InvalidInputError, NeverFitsError, QuotaExceededError or ForbiddenError."""
    checked = check(actor, submission, now)
    check_queue_length(actor, checked)
    return create_workload(actor=actor, now=now, **checked.columns)


@dataclass(frozen=True, slots=True)
class JobChange:
    """New values; None leaves the old one."""

    name: str | None = None
    priority: int | None = None
    preemptible: bool | None = None
    time_limit_s: int | None = None
    max_retries: int | None = None


@transaction.atomic
def change_job(*, workload_id: int, change: JobChange, now: datetime, actor: Actor) -> Workload:
    """Change a job that is not over. Its priority only while it waits. Raises ConflictError, InvalidInputError."""
    job = Workload.objects.select_for_update(no_key=True).get(pk=workload_id, kind=Kind.JOB)
    if is_terminal(Kind.JOB, State(job.state)):
        raise ConflictError(f"The job is over ({job.state}).")
    wanted = {
        column: value
        for column in ("name", "priority", "preemptible", "time_limit_s", "max_retries")
        if (value := getattr(change, column)) is not None and value != getattr(job, column)
    }
    if "priority" in wanted:
        if State(job.state) not in WAITING:
            raise ConflictError("The priority of a job that has started cannot change.")
        _check_priority(job, int(wanted["priority"]))
    before = {column: getattr(job, column) for column in wanted}
    for column, value in wanted.items():
        setattr(job, column, value)
    job.changed_at = now
    job.save(update_fields=[*wanted, "changed_at"])
    if wanted:
        audit(job, actor, now, "job.change", before=before, after=wanted)
        announce(job)
        send_once_on_commit("scheduling.decide")
    return job


def _check_priority(job: Workload, priority: int) -> None:
    scopes = applying_scopes(group_id=job.group_id, user_id=job.user_id, pool_id=job.pool_id)
    errors = priority_errors(priority, scopes)
    if errors:
        raise InvalidInputError(errors[0].message, errors=errors)
