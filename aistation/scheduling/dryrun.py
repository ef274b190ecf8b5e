"""What would happen if this were submitted now. Nothing is written."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from aistation.scheduling.snapshot import instant, microseconds, take_snapshot
from aistation.tenancy.policy import Actor
from aistation.workloads.submission import Submission, check, request_of
from scheduler.decide import decide
from scheduler.model import PendingReason, TaskPlacement

_ID = "~dry-run"  # sorts behind every real id


@dataclass(frozen=True, slots=True)
class DryRun:
    """``starts_now`` with the places it would get, or the position in its pool's queue with the reasons."""

    starts_now: bool
    position: int | None
    reasons: Sequence[PendingReason]
    tasks: Sequence[TaskPlacement]
    lent_by: str | None = None
    earliest: datetime | None = None
    latest: datetime | None = None
    preempts: int = 0  # running jobs that would be asked to leave for it


def dry_run(*, actor: Actor, submission: Submission, now: datetime) -> DryRun:
    """Decide with the submission at its place in the queue. Raises what a submit would raise."""
    checked = check(actor, submission, now)
    snapshot = take_snapshot(epoch=0, now=now)
    asked = request_of(actor, submission, checked.group, checked.pool)
    request = replace(asked, id=_ID, queued_at_us=microseconds(now))
    plan = decide(replace(snapshot, pending=(*snapshot.pending, request)))
    placed = next((placement for placement in plan.placements if placement.request_id == _ID), None)
    if placed is not None:
        return DryRun(starts_now=True, position=None, reasons=(), tasks=placed.tasks, lent_by=placed.lent_by)
    waiting = next(waiting for waiting in plan.waiting if waiting.request_id == _ID)
    return DryRun(
        starts_now=False,
        position=waiting.position,
        reasons=waiting.reasons,
        tasks=(),
        earliest=instant(waiting.earliest_us),
        latest=instant(waiting.latest_us),
        preempts=sum(one.beneficiary == _ID for one in plan.preemptions),
    )
