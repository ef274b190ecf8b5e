"""Writes of quotas: limits that people set, and the use that allocations book."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Least

from aistation.audit.services import record
from aistation.core.bulk import update_rows
from aistation.core.dispatch import send_once_on_commit
from aistation.core.errors import ConflictError, FieldError, InvalidInputError
from aistation.fleet.models import Pool
from aistation.fleet.selectors import fleet_totals
from aistation.quotas.models import COUNTS, GUARANTEED, QUANTITIES, QuotaScope
from aistation.tenancy.models import Group, User
from aistation.tenancy.policy import Actor
from scheduler.fairness import accrued, dominant_milli


@dataclass(frozen=True, slots=True)
class Charge:
    """What a workload, or one task of it, takes from its quota scopes."""

    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    environments: int = 0
    running_jobs: int = 0


def sum_of(charges: Sequence[Charge]) -> Charge:
    """All of them together."""
    return Charge(**{quantity: sum(getattr(charge, quantity) for charge in charges) for quantity in QUANTITIES})


Owner = tuple[int, int, int]
"""Row ids of the group, the user and the pool of a workload."""


def lock_scopes_of(owners: Collection[Owner]) -> Mapping[Owner, list[QuotaScope]]:
    """The four scopes that each owner's workloads count in, locked in id order; missing ones are made, unlimited.

    Lock them before workloads, nodes and cards: the one order that all writers keep.
    """
    wanted = {key for owner in owners for key in _keys(owner)}
    found = _lock(wanted)
    missing = wanted - found.keys()
    if missing:
        QuotaScope.objects.bulk_create(
            [QuotaScope(group_id=group, user_id=user, pool_id=pool) for group, user, pool in sorted(missing, key=str)],
            ignore_conflicts=True,
        )
        found = _lock(wanted)
    return {owner: [found[key] for key in _keys(owner)] for owner in owners}


def lock_scopes(*, group_id: int, user_id: int, pool_id: int) -> list[QuotaScope]:
    """`lock_scopes_of` one workload."""
    owner = (group_id, user_id, pool_id)
    return lock_scopes_of([owner])[owner]


Key = tuple[int, int | None, int | None]


def _keys(owner: Owner) -> list[Key]:
    group, user, pool = owner
    return [(group, None, None), (group, None, pool), (group, user, None), (group, user, pool)]


def _lock(wanted: Collection[Key]) -> dict[Key, QuotaScope]:
    groups = {group for group, _, _ in wanted}
    users = {user for _, user, _ in wanted if user is not None}
    pools = {pool for _, _, pool in wanted if pool is not None}
    rows = (
        QuotaScope.objects.select_for_update(no_key=True)
        .filter(Q(user=None) | Q(user__in=users), Q(pool=None) | Q(pool__in=pools), group__in=groups)
        .order_by("pk")
    )
    found = {(row.group_id, row.user_id, row.pool_id): row for row in rows}
    return {key: found[key] for key in wanted if key in found}


def take(scopes: Sequence[QuotaScope], charge: Charge) -> None:
    """Book ``charge`` in each scope. The CHECK constraints raise IntegrityError when a limit would be passed."""
    changes = {f"{q}_used": F(f"{q}_used") + getattr(charge, q) for q in QUANTITIES if getattr(charge, q)}
    if changes:
        QuotaScope.objects.filter(pk__in=[scope.pk for scope in scopes]).update(**changes)


def give_back(scopes: Sequence[QuotaScope], charge: Charge) -> None:
    """Undo `take`. What was over a lowered limit falls with the use and never rises again."""
    changes: dict[str, Any] = {}
    for quantity in QUANTITIES:
        amount = getattr(charge, quantity)
        if amount:
            left = F(f"{quantity}_used") - amount
            changes[f"{quantity}_used"] = left
            changes[f"{quantity}_over"] = Least(F(f"{quantity}_over"), left)
    if changes:
        QuotaScope.objects.filter(pk__in=[scope.pk for scope in scopes]).update(**changes)


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """New numbers of one scope. ``limits`` and ``guaranteed`` by quantity, ``counts`` by name; absent = unchanged.

    ``seen``: the `numbers` that the person looked at; others now are a ConflictError. None: whatever they are.
    """

    pool: Pool | None
    limits: Mapping[str, int | None]
    guaranteed: Mapping[str, int]
    counts: Mapping[str, int | None]
    weight: int | None = None  # None: unchanged
    seen: Mapping[str, int | None] | None = None


@transaction.atomic
def set_quotas(
    *, group: Group, user: User | None, changes: Sequence[QuotaChange], now: datetime, actor: Actor
) -> list[QuotaScope]:
    """Set the numbers of a group, or of one user in it. A limit below the present use is allowed: nothing new starts
    until use has fallen, running work is left alone."""
    changed = []
    for change in sorted(changes, key=lambda item: item.pool.pk if item.pool else 0):
        scope, _ = QuotaScope.objects.get_or_create(group=group, user=user, pool=change.pool)
        scope = QuotaScope.objects.select_for_update(no_key=True).get(pk=scope.pk)
        before = numbers(scope)
        if change.seen is not None and any(before[name] != number for name, number in change.seen.items()):
            raise ConflictError("Somebody else has changed these quotas meanwhile. Look at them again.")
        _apply(scope, change)
        scope.save()
        changed.append(scope)
        after = numbers(scope)
        if before != after:
            record(
                actor,
                now,
                "quota.set",
                "quota",
                "/".join((group.name, user.username if user else "*", change.pool.name if change.pool else "*")),
                group=group.name,
                before={key: value for key, value in before.items() if after[key] != value},
                after={key: value for key, value in after.items() if before[key] != value},
            )
    send_once_on_commit("scheduling.decide")
    return changed


@transaction.atomic
def set_quotas_of_many(
    *, group: Group, changes: Mapping[int | None, Sequence[QuotaChange]], now: datetime, actor: Actor
) -> None:
    """`set_quotas` of a group (key None) and of users in it, by their row ids: all of it, or nothing."""
    keys = {
        (group.pk, user, change.pool.pk if change.pool else None) for user, those in changes.items() for change in those
    }
    missing = keys - _lock(keys).keys()
    if missing:
        rows = [
            QuotaScope(group_id=group_id, user_id=user, pool_id=pool)
            for group_id, user, pool in sorted(missing, key=str)
        ]
        QuotaScope.objects.bulk_create(rows, ignore_conflicts=True)
        _lock(keys)  # all in id order before the first write, as all writers do
    users = User.objects.in_bulk([user for user in changes if user is not None])
    for user, those in changes.items():
        set_quotas(group=group, user=None if user is None else users[user], changes=those, now=now, actor=actor)


def numbers(scope: QuotaScope) -> dict[str, int | None]:
    """The settable numbers of a scope, by column."""
    columns = [f"{q}_limit" for q in QUANTITIES] + [f"{q}_guaranteed" for q in GUARANTEED] + list(COUNTS)
    columns.append("weight")
    return {column: getattr(scope, column) for column in columns}


def accrue_usage(now: datetime) -> None:
    """Count the use of the time since the last call towards the groups' decayed usage, by which the queue is served.

    Called every few seconds; a change in between counts from the next call on, an error of seconds in two days.
    """
    totals = fleet_totals()
    with transaction.atomic():
        scopes = list(
            QuotaScope.objects.select_for_update(no_key=True).filter(user=None, pool__isnull=False).order_by("pk")
        )
        for scope in scopes:
            since = scope.usage_at or now
            used = scope.gpu_milli_used, scope.cpu_milli_used, scope.memory_mib_used
            milli = dominant_milli(*used, totals.get(scope.pool_id or 0, (0, 0, 0)))
            scope.usage = accrued(scope.usage, milli, (now - since) // timedelta(microseconds=1))
            scope.usage_at = now
        update_rows(scopes, ("usage", "usage_at"))


def _apply(scope: QuotaScope, change: QuotaChange) -> None:
    for quantity, limit in change.limits.items():
        setattr(scope, f"{quantity}_limit", limit)
        used = getattr(scope, f"{quantity}_used")
        setattr(scope, f"{quantity}_over", used if limit is not None and used > limit else 0)
    for quantity, amount in change.guaranteed.items():
        setattr(scope, f"{quantity}_guaranteed", amount)
    for name, count in change.counts.items():
        setattr(scope, name, count)
    if change.weight not in (None, scope.weight):
        if scope.user_id is not None or scope.pool_id is None:
            message = "A weight belongs to a group in one pool."
            raise InvalidInputError(message, errors=[FieldError("weight", "misplaced", message)])
        scope.weight = change.weight
    for quantity in GUARANTEED:
        limit, floor = getattr(scope, f"{quantity}_limit"), getattr(scope, f"{quantity}_guaranteed")
        if limit is not None and floor > limit:
            message = f"The guaranteed {floor} is more than the limit {limit}."
            raise InvalidInputError(message, errors=[FieldError(f"{quantity}.guaranteed", "above_limit", message)])
