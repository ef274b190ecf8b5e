"""Reads of quotas: what may be used, what is used, what waits."""

import functools
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from django.db.models import Count, Q, QuerySet

from aistation.fleet.models import Pool
from aistation.quotas.models import COUNTS, GUARANTEED, QUANTITIES, QuotaScope
from aistation.tenancy.models import Group, User
from aistation.tenancy.policy import Actor
from aistation.tenancy.selectors import visible_group_ids
from scheduler.model import Limit, Scope

QUANTITY_NAMES: Final = QUANTITIES
GUARANTEED_NAMES: Final = GUARANTEED
COUNT_NAMES: Final = COUNTS
_WAITING: Final = ("queued", "held")
Place: TypeAlias = tuple[str | None, str | None]
"""User name and pool name; None: the whole group, all pools."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One limited quantity. ``limit`` None = unlimited. ``used`` may exceed a limit that was lowered meanwhile."""

    used: int = 0
    limit: int | None = None
    guaranteed: int | None = None  # None: this quantity has no guarantee

    @property
    def is_over(self) -> bool:
        return self.limit is not None and self.used > self.limit

    @property
    def free(self) -> int | None:
        """What may still be taken; None = no limit, never negative."""
        return None if self.limit is None else max(0, self.limit - self.used)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """The numbers of a group (``user`` None) or of one person in it, in one pool or over all (``pool`` None)."""

    group: str
    user: str | None
    pool: str | None
    quantities: Mapping[str, Quantity]  # by the names in `QUANTITIES`
    queued_jobs: int = 0
    max_queued_jobs: int | None = None
    max_environment_s: int | None = None
    max_priority: int | None = None
    weight: int = 1

    @property
    def over(self) -> tuple[str, ...]:
        """Quantities that are over their limit now."""
        return tuple(name for name, quantity in self.quantities.items() if quantity.is_over)


def quota_rows(group: Group) -> list[QuotaRow]:
    """The group's own rows: over all pools first, then each pool that has numbers. Two queries."""
    scopes = _by_place(QuotaScope.objects.filter(group=group, user=None))
    queued = _queued(group)
    pools = sorted(pool for _, pool in scopes if pool is not None)
    return [_row(group, (None, pool), scopes, queued) for pool in (None, *pools)]


def user_quota_rows(group: Group, user: User) -> list[QuotaRow]:
    """One person's rows in the group, ordered like `quota_rows`. Two queries."""
    scopes = _by_place(QuotaScope.objects.filter(group=group, user=user))
    queued = _queued(group)
    pools = sorted(pool for _, pool in scopes if pool is not None)
    return [_row(group, (user.username, pool), scopes, queued) for pool in (None, *pools)]


def member_quota_rows(group: Group) -> dict[str, list[QuotaRow]]:
    """`user_quota_rows` of all members and of those who have left but have numbers, by user name. Three queries."""
    scopes = _by_place(QuotaScope.objects.filter(group=group, user__isnull=False))
    queued = _queued(group)
    members = User.objects.filter(memberships__group=group).values_list("username", flat=True)
    names = sorted({*members, *(user for user, _ in scopes if user is not None)})
    rows: dict[str, list[QuotaRow]] = {}
    for name in names:
        pools = sorted(pool for user, pool in scopes if user == name and pool is not None)
        rows[name] = [_row(group, (name, pool), scopes, queued) for pool in (None, *pools)]
    return rows


def scheduler_scopes() -> tuple[Scope, ...]:
    """Every scope that limits something, as the scheduler reads it. One query."""
    return as_scheduler_scopes(_named(QuotaScope.objects.order_by("pk")))


def as_scheduler_scopes(scopes: Iterable[QuotaScope]) -> tuple[Scope, ...]:
    """Those of ``scopes`` that limit something. Their group, user and pool are loaded."""
    return tuple(
        Scope(
            id="/".join((scope.group.name, scope.user.username if scope.user else "*", _pool_name(scope) or "*")),
            group_id=scope.group.name,
            user_id=scope.user.username if scope.user else None,
            pool_id=_pool_name(scope),
            gpu_milli=_limit(scope, "gpu_milli"),
            cpu_milli=_limit(scope, "cpu_milli"),
            memory_mib=_limit(scope, "memory_mib"),
            environments=_limit(scope, "environments"),
            running_jobs=_limit(scope, "running_jobs"),
            guaranteed_milli=scope.gpu_milli_guaranteed or None,
            weight=scope.weight,
            usage=scope.usage,
        )
        for scope in scopes
        if _is_group_in_pool(scope) or any(getattr(scope, f"{quantity}_limit") is not None for quantity in QUANTITIES)
    )


def _is_group_in_pool(scope: QuotaScope) -> bool:
    """Such a scope also carries what the order of service depends on."""
    return scope.user_id is None and scope.pool_id is not None


def applying_scopes(*, group_id: int, user_id: int, pool_id: int) -> list[QuotaScope]:
    """The scopes that a workload of this person in this group and pool counts in, as far as they exist. No lock."""
    rows = QuotaScope.objects.filter(Q(user=None) | Q(user_id=user_id), Q(pool=None) | Q(pool_id=pool_id))
    return list(_named(rows.filter(group_id=group_id).order_by("pk")))


def own_rows(actor: Actor) -> list[QuotaRow]:
    """What limits this person's own work: the rows of each of their groups, and theirs in it, by group, then all pools
    first. Without the counts of waiting jobs. One query."""
    about = Q(user=None) | Q(user_id=actor.user_id)
    scopes = _named(QuotaScope.objects.filter(about, group_id__in=sorted(actor.roles)))
    rows = [
        _row(scope.group, place, {place: scope}, {})
        for scope in scopes
        for place in [(scope.user.username if scope.user else None, _pool_name(scope))]
    ]
    return sorted(rows, key=lambda row: (row.group, row.pool is not None, row.pool or "", row.user is not None))


def group_rows(actor: Actor) -> list[QuotaRow]:
    """The groups' own rows of all groups that the person may see, by group, then all pools first. One query.

    Without the counts of waiting jobs; a group without numbers in a pool has no row there.
    """
    scopes = _named(QuotaScope.objects.filter(user=None, group__archived_at=None))
    visible = visible_group_ids(actor)
    if visible is not None:
        scopes = scopes.filter(group_id__in=visible)
    rows = [_row(scope.group, (None, _pool_name(scope)), {(None, _pool_name(scope)): scope}, {}) for scope in scopes]
    return sorted(rows, key=lambda row: (row.group, row.pool is not None, row.pool or ""))


def list_use(actor: Actor) -> QuerySet[QuotaScope]:
    """Scopes of the groups that the person may see in which something is held now."""
    held = functools.reduce(operator.or_, (Q(**{f"{quantity}_used__gt": 0}) for quantity in QUANTITIES))
    rows = _named(QuotaScope.objects.filter(held).order_by("pk"))
    visible = visible_group_ids(actor)
    return rows if visible is None else rows.filter(group_id__in=visible)


def _named(scopes: QuerySet[QuotaScope]) -> QuerySet[QuotaScope]:
    return scopes.select_related("group", "user", "pool")


def _pool_name(scope: QuotaScope) -> str | None:
    return scope.pool.name if scope.pool else None


def _limit(scope: QuotaScope, quantity: str) -> Limit:
    return Limit(getattr(scope, f"{quantity}_limit"), getattr(scope, f"{quantity}_used"))


def _by_place(scopes: Iterable[QuotaScope]) -> dict[Place, QuotaScope]:
    named = _named(scopes) if isinstance(scopes, QuerySet) else scopes
    return {(scope.user.username if scope.user else None, _pool_name(scope)): scope for scope in named}


def _queued(group: Group) -> dict[Place, int]:
    """Jobs that wait, counted for each person and the whole group, in each pool and over all."""
    rows = (
        Pool.objects.filter(workload__group=group, workload__kind="job", workload__state__in=_WAITING)
        .values_list("workload__user__username", "name")
        .annotate(count=Count("workload"))
    )
    queued: dict[Place, int] = {}
    for user, pool, count in rows:
        for place in ((user, pool), (user, None), (None, pool), (None, None)):
            queued[place] = queued.get(place, 0) + count
    return queued


def _row(group: Group, place: Place, scopes: Mapping[Place, QuotaScope], queued: Mapping[Place, int]) -> QuotaRow:
    user, pool = place
    scope = scopes.get(place) or QuotaScope()
    quantities = {
        name: Quantity(
            used=getattr(scope, f"{name}_used"),
            limit=getattr(scope, f"{name}_limit"),
            guaranteed=getattr(scope, f"{name}_guaranteed") if name in GUARANTEED else None,
        )
        for name in QUANTITIES
    }
    counts = {name: getattr(scope, name) for name in COUNTS}
    return QuotaRow(group.name, user, pool, quantities, queued.get(place, 0), weight=scope.weight, **counts)
