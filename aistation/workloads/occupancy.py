"""Reads of what holds cards and groups now, for people: names only where they may be seen."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, F, Q

from aistation.tenancy.policy import Action, Actor, allows
from aistation.workloads.lifecycle import HOLDING, WAITING, Kind
from aistation.workloads.models import DeviceShare, Workload


@dataclass(frozen=True, slots=True)
class HeldShare:
    """Part of a card that is taken. What this person may not see is empty, so that no page can show it."""

    memory_mib: int
    compute_milli: int
    whole: bool
    is_own: bool = False
    is_own_group: bool = False
    is_visible: bool = False
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
