"""Writes of environments."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from django.db import transaction

from aistation.core.dispatch import send_once_on_commit
from aistation.core.errors import ConflictError, FieldError, InvalidInputError
from aistation.tenancy.policy import Actor
from aistation.workloads.lifecycle import Event, IllegalTransitionError, Kind, Reason
from aistation.workloads.models import Workload
from aistation.workloads.services import announce, apply_event, audit, create_workload, request_stop
from aistation.workloads.submission import Checked, Submission, check

HOME: Final = ({"folder": "home", "path": "/workspace", "mode": "rw"},)


@transaction.atomic
def create_environment(*, actor: Actor, submission: Submission, now: datetime) -> Workload:
    """Ask for an environment; it starts as soon as there is room.

    Without folders it gets its owner's home, so that a stop loses nothing; without a lifetime the longest that the
    quota allows. Raises InvalidInputError, NeverFitsError or ForbiddenError.
    """
    if not submission.folders:
        submission = replace(submission, folders=HOME)
    checked = check(actor, submission, now)
    lifetime_s = _lifetime(submission, checked)
    return create_workload(actor=actor, now=now, **{**checked.columns, "time_limit_s": lifetime_s})


@transaction.atomic
def start_environment(*, workload_id: int, now: datetime, actor: Actor) -> Workload:
    """Ask for a stopped environment again. Its folders are as they were. Raises ConflictError when it runs."""
    environment = Workload.objects.select_for_update(no_key=True).get(pk=workload_id, kind=Kind.ENVIRONMENT)
    environment.queued_at = now
    environment.stop_reason = ""
    try:
        apply_event(environment, Event.RESUME, now=now, actor=actor.username)
    except IllegalTransitionError as error:
        raise ConflictError(f"The environment is {environment.state}; only a stopped one can start.") from error
    audit(environment, actor, now, "environment.start", after={"state": environment.state})
    send_once_on_commit("scheduling.decide")
    return environment


@transaction.atomic
def delete_environment(*, workload_id: int, now: datetime, actor: Actor) -> None:
    """Take an environment off the lists for good; what runs is stopped. Its folders stay. Twice is once."""
    environment = request_stop(workload_id=workload_id, reason=Reason.USER_STOPPED, now=now, actor=actor)
    Workload.objects.filter(pk=environment.pk, deleted_at=None).update(deleted_at=now)
    announce(environment)
    audit(environment, actor, now, "environment.delete", after={"state": environment.state})


def _lifetime(submission: Submission, checked: Checked) -> int | None:
    longest, asked = checked.longest_s, submission.time_limit_s
    if longest is not None and asked is not None and asked > longest:
        message = f"The quota allows a lifetime of {longest} seconds."
        raise InvalidInputError(message, errors=[FieldError("lifetime_s", "exceeds_quota", message)])
    return longest if asked is None else asked
