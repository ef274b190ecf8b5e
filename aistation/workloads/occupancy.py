"""Reads of what holds cards and groups now, for people: names only where they may be seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db.models import Count, F, Q, Sum

from aistation.tenancy.policy import Action, Actor, allows
from aistation.tenancy.selectors import require
from aistation.workloads.lifecycle import HOLDING, WAITING, Kind, State
from aistation.workloads.models import Allocation, DeviceShare, QueueOrder, Workload

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class HeldShare:
    """Part of a card that is taken. What this person may not see is empty, so that no page can show it."""

    memory_mib: int
    compute_milli: int
    whole: bool
    is_own: bool = False
    is_own_group: bool = False
    is_visible: bool = False
    is_lent: bool = False
    uid: str = ""
    kind: str = ""
    name: str = ""
    username: str = ""
    group: str = ""


def held_shares(actor: Actor) -> Mapping[int, list[HeldShare]]:
    """By the card's row id, each card's oldest first. One query."""
    rows = (
        DeviceShare.objects.filter(allocation__released_at=None, device__node__removed_at=None)
        .annotate(
            lent_by=F("allocation__lent_by"),
            work_uid=F("allocation__task__attempt__workload__uid"),
            work_kind=F("allocation__task__attempt__workload__kind"),
            work_name=F("allocation__task__attempt__workload__name"),
            work_group=F("allocation__task__attempt__workload__group_id"),
            work_group_name=F("allocation__task__attempt__workload__group__name"),
            work_user=F("allocation__task__attempt__workload__user_id"),
            work_username=F("allocation__task__attempt__workload__user__username"),
        )
        .order_by("pk")
    )
    held: dict[int, list[HeldShare]] = {}
    for row in rows.values():
        held.setdefault(row["device_id"], []).append(_share(actor, row))
    return held


def _share(actor: Actor, row: Mapping[str, object]) -> HeldShare:
    size = {name: row[name] for name in ("memory_mib", "compute_milli", "whole")}
    size["is_lent"] = row["lent_by"] is not None
    group_id, owner_id = row["work_group"], row["work_user"]
    if not allows(actor, Action.VIEW_WORKLOAD, group_id=group_id, owner_id=owner_id):  # type: ignore[arg-type]
        return HeldShare(**size)  # type: ignore[arg-type]
    return HeldShare(
        **size,  # type: ignore[arg-type]
        is_own=owner_id == actor.user_id,
        is_own_group=group_id in actor.roles,
        is_visible=True,
        uid=str(row["work_uid"]),
        kind=str(row["work_kind"]),
        name=str(row["work_name"]),
        username=str(row["work_username"]),
        group=str(row["work_group_name"]),
    )


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """Workloads of a group that are not over."""

    environments: int
    running_jobs: int
    waiting: int


def count_live(group_id: int) -> LiveCounts:
    """The caller has checked the right to see the group. One query."""
    rows = Workload.objects.filter(group_id=group_id, deleted_at=None)
    holding = Q(state__in=list(HOLDING))
    counts = rows.aggregate(
        environments=Count("pk", filter=holding & Q(kind=Kind.ENVIRONMENT)),
        running_jobs=Count("pk", filter=holding & Q(kind=Kind.JOB)),
        waiting=Count("pk", filter=Q(state__in=list(WAITING))),
    )
    return LiveCounts(**counts)


def lent_now() -> Mapping[int, int]:
    """Card equivalents, in thousandths, that each lending rule lends now, by its row id."""
    held = Allocation.objects.filter(released_at=None, lent_by__isnull=False)
    return dict(held.values_list("lent_by_id").annotate(Sum("card_milli")).order_by())


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """Room that is kept for work that waits. ``starts_at`` None: nobody can say. Whose it is only where that may be
    seen."""

    pool: str
    nodes: Sequence[str]
    starts_at: datetime | None
    cards: int
    time_limit_s: int | None
    kind: str
    is_visible: bool = False
    is_own: bool = False
    uid: str = ""
    name: str = ""
    username: str = ""
    group: str = ""


def kept_rooms(actor: Actor) -> list[KeptRoom]:
    """The reservations of the last decision, by pool, those that start first before others. Two queries."""
    require(actor, Action.VIEW_CLUSTER)
    kept = {
        row["id"]: (pool, row["nodes"], row["starts_at_us"])
        for pool, rows in QueueOrder.objects.values_list("pool__name", "reservations")
        for row in rows
    }
    waiting = Workload.objects.filter(uid__in=list(kept), state=State.QUEUED).select_related("group", "user")
    rooms = [_kept_room(actor, work, *kept[work.uid]) for work in waiting.defer("env", "command", "mounts")]
    return sorted(rooms, key=lambda room: (room.pool, room.starts_at is None, room.starts_at or _NEVER))


def _kept_room(actor: Actor, work: Workload, pool: str, nodes: Sequence[str], starts_at_us: int | None) -> KeptRoom:
    starts_at = None if starts_at_us is None else _EPOCH + timedelta(microseconds=starts_at_us)
    size = (pool, nodes, starts_at, work.gpus * work.tasks_count, work.time_limit_s, work.kind)
    if not allows(actor, Action.VIEW_WORKLOAD, group_id=work.group_id, owner_id=work.user_id):
        return KeptRoom(*size)
    return KeptRoom(
        *size,
        is_visible=True,
        is_own=work.user_id == actor.user_id,
        uid=work.uid,
        name=work.name,
        username=work.user.username,
        group=work.group.name,
    )


def by_pool(rooms: Sequence[KeptRoom]) -> Mapping[str, list[KeptRoom]]:
    """In the same order within each pool."""
    found: dict[str, list[KeptRoom]] = {}
    for room in rooms:
        found.setdefault(room.pool, []).append(room)
    return found
