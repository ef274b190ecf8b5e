"""Lists of workloads: filters from the query string, pages by key, a fixed number of queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from aistation.portal.words import STATES
from aistation.tenancy.policy import Action, Actor, allows
from aistation.workloads.lifecycle import HOLDING, TERMINAL, WAITING, Kind, State
from aistation.workloads.selectors import latest_tasks, list_workloads, queue_positions

if TYPE_CHECKING:
    from aistation.workloads.models import Task, Workload

PAGE: Final = 50
UNSHOWN: Final = ("env", "command", "mounts")
"""What lists never show and can be a MiB each."""
_SETS: Final[Mapping[str, frozenset[State]]] = {"waiting": WAITING, "active": HOLDING}


@dataclass(frozen=True, slots=True)
class Filters:
    """What the person looks for. ``mine``: only their own; the usual view."""

    mine: bool = True
    state: str = ""
    group: str = ""
    pool: str = ""
    text: str = ""
    before: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> "Filters":
        """Unknown values are as absent: a list never fails for what its address says."""
        state = query.get("state", "")
        return cls(
            mine=query.get("who") != "all",
            state=state if state in STATES or state in ("waiting", "active", "ended") else "",
            group=query.get("group", "")[:63],
            pool=query.get("pool", "")[:63],
            text=query.get("q", "").replace("\x00", "")[:128].strip(),
            before=query.get("before", "")[:32].replace("\x00", ""),
        )

    @property
    def narrows(self) -> bool:
        """Something other than whose they are is filtered."""
        return bool(self.state or self.group or self.pool or self.text)


@dataclass(frozen=True, slots=True)
class Row:
    """A workload with what its row shows."""

    workload: "Workload"
    tasks: "Sequence[Task]"
    position: int | None
    may_control: bool

    @property
    def nodes(self) -> list[str]:
        return sorted({task.node.name for task in self.tasks})

    @property
    def is_waiting(self) -> bool:
        return State(self.workload.state) in WAITING

    @property
    def is_over(self) -> bool:
        return State(self.workload.state) in TERMINAL[Kind(self.workload.kind)]

    @property
    def is_stopping(self) -> bool:
        return State(self.workload.state) in (State.STOPPING, State.PREEMPTING)


@dataclass(frozen=True, slots=True)
class Page:
    rows: Sequence[Row]
    older: str  # the uid to go on from; empty: this is the last page
    is_first: bool


def state_choices(kind: Kind) -> list[tuple[str, str | Promise]]:
    """For the filter: sets first, then the states that this kind can be in."""
    states = {*TERMINAL[kind], State.QUEUED, State.STARTING, State.RUNNING, State.STOPPING}
    if kind is Kind.JOB:
        states |= {State.HELD, State.SCHEDULED, State.PULLING, State.PREEMPTING}
    sets = [("", _("all")), ("waiting", _("waiting")), ("active", _("on a node")), ("ended", _("over"))]
    return [*sets, *((state.value, STATES[state.value]) for state in State if state in states)]


def page_of(actor: Actor, kind: Kind, filters: Filters, *, size: int = PAGE) -> Page:
    """Newest first, from the workload after ``filters.before`` on."""
    rows = _filtered(list_workloads(actor, kind), actor, kind, filters)
    if filters.before:
        last = list_workloads(actor, kind).filter(uid=filters.before).values_list("pk", flat=True).first()
        rows = rows if last is None else rows.filter(pk__lt=last)
    found = list(rows.defer(*UNSHOWN)[: size + 1])
    shown = found[:size]
    older = shown[-1].uid if len(found) > size else ""
    return Page(rows_of(actor, shown), older, is_first=not filters.before)


def rows_of(actor: Actor, workloads: "Sequence[Workload]") -> list[Row]:
    """Rows of workloads that `with_places` loaded: at most one query more."""
    positions = queue_positions(workloads)
    return [
        Row(
            workload,
            latest_tasks(workload) if State(workload.state) not in WAITING else (),
            positions.get(workload.pk),
            allows(actor, Action.CONTROL_WORKLOAD, group_id=workload.group_id, owner_id=workload.user_id),
        )
        for workload in workloads
    ]


def _filtered(rows: "QuerySet[Workload]", actor: Actor, kind: Kind, filters: Filters) -> "QuerySet[Workload]":
    if filters.mine:
        rows = rows.filter(user_id=actor.user_id)
    if filters.state:
        sets = {**_SETS, "ended": TERMINAL[kind]}
        rows = rows.filter(state__in=list(sets.get(filters.state, [filters.state])))
    if filters.group:
        rows = rows.filter(group__name=filters.group)
    if filters.pool:
        rows = rows.filter(pool__name=filters.pool)
    if filters.text:
        rows = rows.filter(Q(name__icontains=filters.text) | Q(uid=filters.text) | Q(user__username=filters.text))
    return rows


def topics_of(actor: Actor, rows: Sequence[Row]) -> str:
    """What a page with these rows listens to: the person's own changes and those of the groups that are shown."""
    groups = sorted({row.workload.group_id for row in rows} | set(actor.roles))
    return " ".join(["queue", f"user.{actor.user_id}", *(f"group.{group}" for group in groups[:50])])
