"""The one writer of a workload's state, and the writes around it.

Locks are always taken in this order: quota scopes, workload, node and card counters.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from aistation.audit.services import record
from aistation.core.dispatch import changed_on_commit, send_once_on_commit
from aistation.core.errors import ConflictError
from aistation.core.ids import new_secret, new_uid
from aistation.fleet import services as fleet
from aistation.quotas import services as quotas
from aistation.quotas.models import QuotaScope
from aistation.tenancy.policy import Actor
from aistation.workloads.lifecycle import (
    ENDED,
    HOLDING,
    WAITING,
    WANTED,
    Event,
    IllegalTransitionError,
    Kind,
    Reason,
    State,
    end_event,
    is_terminal,
    next_state,
)
from aistation.workloads.models import Attempt, Task, Transition, Workload

SYSTEM: Final = "system"


def create_workload(*, actor: Actor, now: datetime, **columns: Any) -> Workload:
    """Insert a queued workload. Call it in a transaction, after the checks of its kind."""
    kind = Kind(columns["kind"])
    workload = Workload.objects.create(
        uid=new_uid("env" if kind is Kind.ENVIRONMENT else "job"),
        user_id=actor.user_id,
        state=State.QUEUED,
        submitted_at=now,
        queued_at=now,
        changed_at=now,
        access_token=new_secret() if kind is Kind.ENVIRONMENT else "",
        **columns,
    )
    Transition.objects.create(
        workload=workload, attempt=0, event=Event.SUBMIT, to_state=State.QUEUED, actor=actor.username, at=now
    )
    audit(workload, actor, now, f"{kind}.submit")
    announce(workload)
    send_once_on_commit("scheduling.decide")
    return workload


def lock(workload_id: int) -> tuple[Workload, list[QuotaScope]]:
    """Lock the quota scopes of a workload, then the workload itself."""
    facts = Workload.objects.values("group_id", "user_id", "pool_id").get(pk=workload_id)
    scopes = quotas.lock_scopes(**facts)
    return Workload.objects.select_for_update(no_key=True).get(pk=workload_id), scopes


MOVED: Final = (
    "state", "reason", "stop_reason", "message", "pending_reasons", "attempt", "retries_used", "exit_code",
    "started_at", "ended_at", "changed_at", "promised_start",
)  # fmt: skip
"""The columns of a workload that `move` and `end` may change."""
ENDED_ATTEMPT: Final = ("started_at", "ended_at", "reason", "exit_code", "message")


def move(
    workload: Workload,
    event: Event,
    *,
    now: datetime,
    actor: str = SYSTEM,
    reason: Reason | None = None,
    message: str = "",
) -> Transition:
    """Move a locked workload on, in memory. The only place that assigns ``state``.

    Returns the transition, to be written together with the columns `MOVED`. Raises IllegalTransitionError, with
    nothing changed.
    """
    kind, before = Kind(workload.kind), State(workload.state)
    after = next_state(kind, before, event)
    workload.state = after
    workload.changed_at = now
    workload.message = message[:1000]
    if event in (Event.STOP, Event.PREEMPT) and reason is not None:
        workload.stop_reason = reason
    if event is Event.PLACE:
        workload.promised_start = None
    if after is State.RUNNING and before is not State.RUNNING:
        workload.started_at = now
    if is_terminal(kind, after):
        workload.reason = reason or ""
        workload.ended_at = now
        workload.pending_reasons = []
    elif after in WAITING:
        workload.reason = workload.stop_reason = ""
        workload.started_at = workload.ended_at = None
    return Transition(
        workload=workload,
        attempt=workload.attempt,
        event=event,
        from_state=before,
        to_state=after,
        reason=reason or "",
        actor=actor,
        message=message[:1000],
        at=now,
    )


def end(
    workload: Workload, attempt: Attempt, reason: Reason, *, now: datetime, message: str, exit_code: int | None
) -> Transition:
    """The attempt of a locked workload is over, in memory: write `MOVED` and `ENDED_ATTEMPT` too."""
    event = end_event(Kind(workload.kind), reason, retries_left=workload.max_retries - workload.retries_used)
    if event is Event.END_RETRY and reason not in (Reason.PREEMPTED, Reason.RECLAIMED):
        workload.retries_used += 1
    workload.exit_code = exit_code
    attempt.ended_at, attempt.reason, attempt.exit_code = now, reason, exit_code
    attempt.message = message[:1000]
    return move(workload, event, now=now, reason=reason, message=message)


def follow_end(kind: Kind) -> None:
    """What an end sets going, once committed."""
    send_once_on_commit("scheduling.decide")
    if kind is Kind.ENVIRONMENT:
        send_once_on_commit("ingress.write_routes")


def apply_event(
    workload: Workload,
    event: Event,
    *,
    now: datetime,
    actor: str = SYSTEM,
    reason: Reason | None = None,
    message: str = "",
) -> None:
    """`move` a locked workload and write it. Raises IllegalTransitionError, with nothing changed."""
    transition = move(workload, event, now=now, actor=actor, reason=reason, message=message)
    workload.save(update_fields=MOVED)
    transition.save(force_insert=True)
    announce(workload)


def announce(workload: Workload) -> None:
    """Tell open pages that this workload, its group's lists and the queue look different now."""
    changed_on_commit(f"workload.{workload.uid}", f"group.{workload.group_id}", f"user.{workload.user_id}")


# --- stopping ----------------------------------------------------------------------------------------


@transaction.atomic
def request_stop(*, workload_id: int, reason: Reason, now: datetime, actor: Actor | None = None) -> Workload:
    """End a workload for ``reason``. Asking again, or when it is over, changes nothing.

    What waits ends at once. What runs is told to stop; its resources stay booked until its node confirms.
    """
    workload, _ = lock(workload_id)
    kind, state = Kind(workload.kind), State(workload.state)
    who = actor.username if actor else SYSTEM
    if state in WAITING:
        apply_event(workload, end_event(kind, reason, retries_left=0), now=now, actor=who, reason=reason)
    elif state in HOLDING and (not workload.stop_reason or reason is Reason.USER_STOPPED):
        if state is not State.STOPPING:
            apply_event(workload, Event.STOP, now=now, actor=who, reason=reason)
        elif workload.stop_reason != reason:
            Workload.objects.filter(pk=workload.pk).update(stop_reason=reason)
            workload.stop_reason = reason
        fleet.bump_desired(unended_node_ids(workload))
    else:
        return workload
    if actor is not None:
        audit(workload, actor, now, f"{kind}.stop")
    return workload


@transaction.atomic
def request_preempt(*, workload_id: int, reason: Reason, message: str, now: datetime) -> bool:
    """Ask a running job to save and leave for ``reason`` (PREEMPTED or RECLAIMED); it then waits again under its id
    and in its place. False, with nothing changed: it is over, leaving already, or may not be preempted."""
    workload, _ = lock(workload_id)
    if not workload.preemptible or workload.kind != Kind.JOB or State(workload.state) not in WANTED:
        return False
    apply_event(workload, Event.PREEMPT, now=now, reason=reason, message=message)
    fleet.bump_desired(unended_node_ids(workload))
    return True


@transaction.atomic
def record_checkpoint(*, workload_id: int, now: datetime, actor: Actor) -> Workload:
    """The running attempt has saved its progress: ending it now would lose nothing. Raises ConflictError."""
    workload = Workload.objects.select_for_update(no_key=True).get(pk=workload_id)
    if State(workload.state) not in HOLDING:
        raise ConflictError(f"The job does not run ({workload.state}).")
    Attempt.objects.filter(workload=workload, number=workload.attempt).update(saved_at=now)
    audit(workload, actor, now, "job.checkpoint", after={"attempt": workload.attempt})
    return workload


@transaction.atomic
def hold(*, workload_id: int, now: datetime, actor: Actor) -> Workload:
    """Keep a queued job from starting until it is released. Raises ConflictError when it is not queued."""
    return _by_hand(workload_id, Event.HOLD, now, actor, "Only a queued job can be held.")


@transaction.atomic
def release(*, workload_id: int, now: datetime, actor: Actor) -> Workload:
    """Let a held job start again, in its old place. Raises ConflictError when it is not held."""
    return _by_hand(workload_id, Event.RELEASE, now, actor, "Only a held job can be released.")


def _by_hand(workload_id: int, event: Event, now: datetime, actor: Actor, refusal: str) -> Workload:
    workload = Workload.objects.select_for_update(no_key=True).get(pk=workload_id)
    try:
        apply_event(workload, event, now=now, actor=actor.username)
    except IllegalTransitionError as error:
        raise ConflictError(refusal) from error
    audit(workload, actor, now, f"{workload.kind}.{event}")
    send_once_on_commit("scheduling.decide")
    return workload


@transaction.atomic
def mark_node_lost(*, workload_id: int, node_name: str, now: datetime) -> None:
    """A node of this workload is lost. With retries left it waits for proof that nothing runs there any more, so
    that no two attempts live at once; else it ends now. The cards stay booked until the node answers."""
    workload, _ = lock(workload_id)
    if State(workload.state) not in HOLDING or (workload.state == State.STOPPING and workload.stop_reason):
        return
    message = f"Node {node_name} is lost."
    retries_left = workload.max_retries - workload.retries_used
    if workload.kind == Kind.JOB and retries_left > 0:
        apply_event(workload, Event.STOP, now=now, reason=Reason.NODE_LOST, message=message + " Awaiting the node.")
        return
    end_attempt(workload, Reason.NODE_LOST, now=now, message=message, exit_code=None)


def end_attempt(workload: Workload, reason: Reason, *, now: datetime, message: str, exit_code: int | None) -> None:
    """The present attempt of a locked workload is over, whatever its tasks do."""
    attempt = Attempt.objects.get(workload=workload, number=workload.attempt)
    transition = end(workload, attempt, reason, now=now, message=message, exit_code=exit_code)
    workload.save(update_fields=MOVED)
    transition.save(force_insert=True)
    attempt.save(update_fields=ENDED_ATTEMPT)
    announce(workload)
    fleet.bump_desired(unended_node_ids(workload))
    follow_end(Kind(workload.kind))


def unended_node_ids(workload: Workload) -> list[int]:
    """Nodes that still have an unended task of this workload, in id order."""
    rows = Task.objects.filter(attempt__workload=workload, settled_at=None).exclude(phase__in=list(ENDED))
    return sorted(set(rows.values_list("node_id", flat=True)))


def audit(workload: Workload, actor: Actor, now: datetime, action: str, **changes: Mapping[str, Any]) -> None:
    """Append an audit event about a workload. Without ``before`` or ``after`` it tells the name and the state."""
    told = changes or {"after": {"name": workload.name, "state": workload.state}}
    record(actor, now, action, "workload", workload.uid, group=workload.group.name, **told)
