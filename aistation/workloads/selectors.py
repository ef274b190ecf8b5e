"""Reads of workloads. ``access_*`` is the only way for an edge to get hold of one."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import connection
from django.db.models import Count, F, Func, IntegerField, OuterRef, Prefetch, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from aistation.core.errors import NotFoundError
from aistation.fleet.models import Pool
from aistation.tenancy.models import Group, User
from aistation.tenancy.policy import Action, Actor, allows
from aistation.tenancy.selectors import require, visible_group_ids
from aistation.workloads.lifecycle import ENDED, WAITING, WANTED, Kind, Phase, State, is_terminal
from aistation.workloads.models import Attempt, DeviceShare, QueueOrder, Task, Transition, Workload

PAGE_LIMIT: Final = 200


def list_workloads(actor: Actor, kind: Kind) -> QuerySet[Workload]:
    """Those of the groups that the person may see, newest first, with what a list shows."""
    rows = Workload.objects.filter(kind=kind, deleted_at=None)
    visible = visible_group_ids(actor)
    if visible is not None:
        rows = rows.filter(group_id__in=visible)
    return with_places(rows.select_related("group", "user", "pool", "image").order_by("-id"))


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list is narrowed to; None: not by this. ``name`` is a part of the name, whatever the case."""

    states: Sequence[str] | None = None
    group: str | None = None
    user: str | None = None
    pool: str | None = None
    name: str | None = None


def narrowed(rows: QuerySet[Workload], wanted: Filter) -> QuerySet[Workload]:
    """Names become ids first: with joins the planner would read and sort all rows instead of walking an index."""
    ids: dict[str, int] = {}
    for column, found, name in (
        ("group_id", Group.objects.filter(name=wanted.group), wanted.group),
        ("user_id", User.objects.filter(username=wanted.user), wanted.user),
        ("pool_id", Pool.objects.filter(name=wanted.pool), wanted.pool),
    ):
        if name is not None:
            ids[column] = found.values_list("pk", flat=True).first() or 0
    rows = rows.filter(**ids)
    if wanted.name is not None:
        # As a pattern of the column itself: "icontains" compares UPPER(name), of which the planner knows nothing.
        rows = rows.filter(name__iregex=re.sub(r"(\W)", r"\\\1", wanted.name))
    return rows if wanted.states is None else rows.filter(state__in=list(wanted.states))


def with_places(rows: QuerySet[Workload]) -> QuerySet[Workload]:
    """Prefetch the latest attempt's tasks, nodes and cards: three more queries for any number of rows."""
    shares = DeviceShare.objects.select_related("device").order_by("device__uuid")
    tasks = (
        Task.objects.select_related("node", "allocation__lent_by__lender")
        .prefetch_related(Prefetch("allocation__shares", shares))
        .order_by("rank")
    )
    latest = Attempt.objects.filter(number=F("workload__attempt")).prefetch_related(Prefetch("tasks", tasks))
    return rows.prefetch_related(Prefetch("attempts", latest, to_attr="latest"))


def latest_tasks(workload: Workload) -> list[Task]:
    """Tasks of the latest attempt, by rank, of a row that `with_places` loaded."""
    attempts: list[Attempt] = workload.latest  # type: ignore[attr-defined]
    return list(attempts[0].tasks.all()) if attempts else []


def lenders_of(tasks: Sequence[Task]) -> list[str]:
    """The pools whose cards these tasks hold now by a lending rule. The tasks come from `latest_tasks`."""
    held = [task.allocation for task in tasks if task.allocation.released_at is None]
    return sorted({one.lent_by.lender.name for one in held if one.lent_by is not None})


def as_created(workload: Workload) -> Workload:
    """A row that was just inserted, as `with_places` would load it: it has no attempt yet."""
    workload.latest = []  # type: ignore[attr-defined]
    return workload


def access_workload(actor: Actor, uid: str, kind: Kind | None, action: Action = Action.VIEW_WORKLOAD) -> Workload:
    """The workload, when the person may do ``action`` to it. One that they may not see is missing."""
    rows = Workload.objects.filter(uid=uid, deleted_at=None)
    if kind is not None:
        rows = rows.filter(kind=kind)
    found = with_places(rows.select_related("group", "user", "pool", "image")).first()
    if found is None or not allows(actor, Action.VIEW_WORKLOAD, group_id=found.group_id, owner_id=found.user_id):
        raise NotFoundError
    require(actor, action, group_id=found.group_id, owner_id=found.user_id)
    return found


def has_ended(workload_id: int) -> bool:
    """True when the workload is over and will have no other task unless somebody asks for it again."""
    row = Workload.objects.filter(pk=workload_id).values_list("kind", "state").first()
    return row is None or is_terminal(Kind(row[0]), State(row[1]))


def allowed_uids(actor: Actor, uids: Collection[str], action: Action) -> set[str]:
    """Those of the uids with a workload to which the person may do ``action``. One query, whatever their number."""
    rows = Workload.objects.filter(uid__in=list(uids), deleted_at=None).values_list("uid", "group_id", "user_id")
    return {
        uid
        for uid, group_id, owner_id in rows
        if allows(actor, Action.VIEW_WORKLOAD, group_id=group_id, owner_id=owner_id)
        and allows(actor, action, group_id=group_id, owner_id=owner_id)
    }


def list_transitions(workload_id: int) -> QuerySet[Transition]:
    return Transition.objects.filter(workload_id=workload_id).order_by("id")


def list_attempts(workload_id: int) -> QuerySet[Attempt]:
    """All attempts with their tasks and the cards of these, by number."""
    shares = DeviceShare.objects.select_related("device").order_by("device__uuid")
    tasks = Task.objects.select_related("node", "allocation").prefetch_related(Prefetch("allocation__shares", shares))
    tasks = tasks.order_by("rank")
    return Attempt.objects.filter(workload_id=workload_id).prefetch_related(Prefetch("tasks", tasks)).order_by("number")


def find_task(workload_id: int, *, attempt: int | None = None, rank: int = 0) -> Task | None:
    """The task of this rank in the given attempt, or in the latest one; None: there is none (yet)."""
    rows = Task.objects.filter(attempt__workload_id=workload_id, rank=rank).select_related("attempt")
    if attempt is not None:
        rows = rows.filter(attempt__number=attempt)
    return rows.order_by("-attempt__number").first()


def queue() -> QuerySet[Workload]:
    """What waits, each with its ``position`` in its pool (1 = next): as last decided; what has come since stands
    behind that, by priority and age."""
    decided = Func(
        QueueOrder.objects.filter(pool_id=OuterRef("pool_id")).values("uids"),
        F("uid"),
        function="array_position",
        output_field=IntegerField(),
    )
    order = [F("decided").asc(nulls_last=True), F("priority").desc(), F("queued_at").asc(), F("uid").asc()]
    return (
        Workload.objects.filter(state=State.QUEUED)
        .select_related("group", "user", "pool", "image")
        .annotate(decided=decided)
        .annotate(position=Window(RowNumber(), partition_by=[F("pool_id")], order_by=order))
        .order_by("pool__name", "position")
    )


def list_waiting(actor: Actor) -> QuerySet[Workload]:
    """What waits in the groups that the person may see, held jobs too, unordered. `queue_positions` has the places."""
    rows = Workload.objects.filter(state__in=list(WAITING), deleted_at=None)
    visible = visible_group_ids(actor)
    if visible is not None:
        rows = rows.filter(group_id__in=visible)
    return rows.select_related("group", "user", "pool", "image")


def queue_positions(workloads: Sequence[Workload]) -> Mapping[int, int]:
    """Row id to position in its pool, for those that are queued: as last decided; of what has come since, by priority
    and age."""
    waiting = [workload for workload in workloads if workload.state == State.QUEUED]
    decided = _decided_positions(waiting)
    positions = {workload.pk: decided[workload.uid] for workload in waiting if workload.uid in decided}
    return positions | _positions_by_age([workload for workload in waiting if workload.pk not in positions])


def _decided_positions(waiting: Sequence[Workload]) -> dict[str, int]:
    if not waiting:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT place.uid, place.position FROM workloads_queueorder,"
            " unnest(uids) WITH ORDINALITY AS place (uid, position)"
            " WHERE pool_id = ANY(%s) AND place.uid = ANY(%s)",
            [sorted({one.pool_id for one in waiting}), [one.uid for one in waiting]],
        )
        return dict(cursor.fetchall())


def _positions_by_age(waiting: Sequence[Workload]) -> dict[int, int]:
    if not waiting:
        return {}
    if len(waiting) == 1:
        return {waiting[0].pk: _position(waiting[0])}
    rows = Workload.objects.filter(state=State.QUEUED, pool_id__in={workload.pool_id for workload in waiting})
    order = [F("priority").desc(), F("queued_at").asc(), F("uid").asc()]
    ranked = rows.annotate(position=Window(RowNumber(), partition_by=[F("pool_id")], order_by=order))
    wanted = {workload.pk for workload in waiting}
    return {pk: position for pk, position in ranked.values_list("pk", "position") if pk in wanted}


def _position(workload: Workload) -> int:
    same = Q(priority=workload.priority, queued_at=workload.queued_at, uid__lt=workload.uid)
    older = Q(priority=workload.priority, queued_at__lt=workload.queued_at)
    ahead = Workload.objects.filter(Q(priority__gt=workload.priority) | older | same)
    return 1 + ahead.filter(state=State.QUEUED, pool_id=workload.pool_id).count()


def count_queued() -> Mapping[str, int]:
    """How many workloads wait in each pool, by its name."""
    rows = Workload.objects.filter(state=State.QUEUED, deleted_at=None).values_list("pool__name")
    return dict(rows.annotate(Count("id")).order_by())


def count_queued_jobs(*, group_id: int, user_id: int | None = None, pool_id: int | None = None) -> int:
    """Jobs that wait in this scope, held ones too."""
    rows = Workload.objects.filter(kind=Kind.JOB, group_id=group_id, state__in=[State.QUEUED, State.HELD])
    if user_id is not None:
        rows = rows.filter(user_id=user_id)
    if pool_id is not None:
        rows = rows.filter(pool_id=pool_id)
    return rows.count()


def state_counts(kind: Kind) -> Mapping[str, int]:
    """Workloads by state, for metrics."""
    rows = Workload.objects.filter(kind=kind, deleted_at=None).values_list("state").annotate(Count("id"))
    return dict(rows.order_by("state"))


# --- for the agents ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DesiredTask:
    """One container that a node should run, or end (``stop``). Mirrors the wire's TaskSpec."""

    task_uid: str
    nonce: str
    workload_uid: str
    workload_name: str
    kind: str
    attempt: int
    rank: int
    tasks: int
    image: str
    reference: str
    command: Sequence[str]
    env: Mapping[str, str]
    cpu_milli: int
    memory_mib: int
    shares: Sequence[tuple[str, int, int, bool]]  # card UUID, MiB, milli, whole
    mounts: Sequence[Mapping[str, str]]  # source, path, mode
    port: int | None
    stop: bool
    stop_reason: str
    log_limit_bytes: int


def desired_tasks(node_id: int) -> list[DesiredTask]:
    """All tasks of the node that are not settled. One that should not exist (any more) carries ``stop``."""
    shares = DeviceShare.objects.select_related("device").order_by("device__uuid")
    rows = (
        Task.objects.filter(node_id=node_id, settled_at=None)
        .select_related("attempt__workload__image", "allocation")
        .prefetch_related(Prefetch("allocation__shares", shares))
        .order_by("pk")
    )
    return [_desired(task) for task in rows]


def _desired(task: Task) -> DesiredTask:
    workload = task.attempt.workload
    wanted = (
        task.attempt.number == workload.attempt and State(workload.state) in WANTED and Phase(task.phase) not in ENDED
    )
    return DesiredTask(
        task_uid=task.uid,
        nonce=task.nonce,
        workload_uid=workload.uid,
        workload_name=workload.name,
        kind=workload.kind,
        attempt=task.attempt.number,
        rank=task.rank,
        tasks=workload.tasks_count,
        image=workload.image.name,
        reference=workload.image.reference,
        command=workload.command or workload.image.command,
        env={**workload.env, **_token_env(workload)},
        cpu_milli=task.allocation.cpu_milli,
        memory_mib=task.allocation.memory_mib,
        shares=[(s.device.uuid, s.memory_mib, s.compute_milli, s.whole) for s in task.allocation.shares.all()],
        mounts=[{"source": m["folder"], "path": m["path"], "mode": m["mode"]} for m in workload.mounts],
        port=workload.port,
        stop=not wanted,
        stop_reason="" if wanted else workload.stop_reason,
        log_limit_bytes=settings.LOG_LIMIT_BYTES,
    )


def _token_env(workload: Workload) -> dict[str, str]:
    return (
        {"JUPYTER_TOKEN": workload.access_token, "AISTATION_ACCESS_TOKEN": workload.access_token}
        if workload.access_token
        else {}
    )


def finished_foreign(node_id: int, found: Sequence[tuple[str, str]]) -> list[str]:
    """Of containers that are not desired: the ones that are truly ours (nonce matches) and settled."""
    known = dict(
        Task.objects.filter(node_id=node_id, uid__in=[uid for uid, _ in found], settled_at__isnull=False).values_list(
            "uid", "nonce"
        )
    )
    return [uid for uid, nonce in found if known.get(uid) == nonce]


# --- for the gateway ---------------------------------------------------------------------------------


def running_environments() -> list[Mapping[str, Any]]:
    """Environments with a container that listens: workload_uid, address (the node's), host_port."""
    rows = Task.objects.filter(
        phase=Phase.RUNNING,
        host_port__isnull=False,
        attempt__workload__kind=Kind.ENVIRONMENT,
        attempt__workload__state=State.RUNNING,
        attempt__number=F("attempt__workload__attempt"),
        rank=0,
    )
    named = rows.values("host_port", workload_uid=F("attempt__workload__uid"), address=F("node__address"))
    return list(named.order_by("workload_uid"))
