"""Everything that the page of one workload shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from aistation.portal.forms.workloads import command_text
from aistation.portal.listing import Row, rows_of
from aistation.portal.pages import Request
from aistation.portal.reasons import Told, tell_all
from aistation.tenancy.policy import Action, allows
from aistation.workloads.lifecycle import WAITING, Kind, State
from aistation.workloads.selectors import latest_tasks, lenders_of, list_attempts, list_transitions

if TYPE_CHECKING:
    from aistation.workloads.models import Attempt, Transition, Workload

EVENTS: Final = 60
"""Of the newest that the timeline shows; a job that is interrupted every hour has many."""
ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class Detail:
    row: Row
    reasons: Sequence[Told]
    events: "Sequence[Transition]"
    attempts: "Sequence[Attempt]"
    command: str
    shown_attempt: int | None  # whose log; None: the latest
    shown_task: int
    may_see_log: bool
    may_open: bool
    ends_at: datetime | None
    lenders: Sequence[str]  # pools on whose cards it is now, by a lending rule

    @property
    def workload(self) -> "Workload":
        return self.row.workload

    @property
    def env_names(self) -> list[str]:
        return sorted(self.workload.env)


def detail_of(request: Request, workload: "Workload") -> Detail:
    """A fixed number of queries. ``?attempt=&task=`` choose whose log is shown."""
    actor = request.actor
    owned = {"group_id": workload.group_id, "owner_id": workload.user_id}
    may_see_log = allows(actor, Action.VIEW_LOGS, **owned)
    is_running = workload.state == State.RUNNING
    may_open = workload.kind == Kind.ENVIRONMENT and allows(actor, Action.OPEN_ENVIRONMENT, **owned)
    text, _mode = command_text(workload.command)
    ends_at = None
    if is_running and workload.started_at and workload.time_limit_s:
        ends_at = workload.started_at + timedelta(seconds=workload.time_limit_s)
    return Detail(
        row=rows_of(actor, [workload])[0],
        reasons=tell_all(workload.pending_reasons) if State(workload.state) in WAITING else (),
        events=list(reversed(list_transitions(workload.pk).order_by("-id")[:EVENTS])),
        attempts=list(list_attempts(workload.pk).order_by("-number")[:ATTEMPTS]),
        command=text,
        shown_attempt=_number(request.GET.get("attempt"), workload.attempt, least=1),
        shown_task=_number(request.GET.get("task"), workload.tasks_count - 1, least=0) or 0,
        may_see_log=may_see_log,
        may_open=may_open,
        ends_at=ends_at,
        lenders=lenders_of(latest_tasks(workload)),
    )


def _number(text: str | None, most: int, *, least: int) -> int | None:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 6:
        return None
    number = int(text)
    return number if least <= number <= most else None
