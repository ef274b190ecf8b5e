"""Writes of quotas: limits that people set, and the use that allocations book."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Least

from aistation.audit.services import record
from aistation.core.dispatch import send_once_on_commit
from aistation.core.errors import FieldError, InvalidInputError
from aistation.fleet.models import Pool
from aistation.quotas.models import QUANTITIES, QuotaScope
from aistation.tenancy.models import Group, User
from aistation.tenancy.policy import Actor

COUNTS: Final = ("max_queued_jobs", "max_environment_s", "max_priority")
GUARANTEED: Final = ("gpu_milli", "cpu_milli", "memory_mib")


@dataclass(frozen=True, slots=True)
class Charge:
    """What a workload, or one task of it, takes from its quota scopes."""

    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    environments: int = 0
    running_jobs: int = 0


def lock_scopes(*, group_id: int, user_id: int, pool_id: int) -> list[QuotaScope]:
    """The four scopes that a workload counts in, locked in id order; missing ones are made without limits.

    Lock them before the workload, nodes and cards (the one order that all writers keep).
    """
    wanted = {(user, pool) for user in (None, user_id) for pool in (None, pool_id)}
    scopes = _lock(group_id, wanted)
    if len(scopes) < len(wanted):
        missing = wanted - {(scope.user_id, scope.pool_id) for scope in scopes}
        QuotaScope.objects.bulk_create(
            [QuotaScope(group_id=group_id, user_id=user, pool_id=pool) for user, pool in missing],
            ignore_conflicts=True,
        )
        scopes = _lock(group_id, wanted)
    return scopes


def _lock(group_id: int, wanted: set[tuple[int | None, int | None]]) -> list[QuotaScope]:
    rows = QuotaScope.objects.select_for_update(no_key=True).filter(group_id=group_id).order_by("pk")
    users = {user for user, _ in wanted if user is not None}
    pools = {pool for _, pool in wanted if pool is not None}
    rows = rows.extra(
        where=["(user_id IS NULL OR user_id = ANY(%s)) AND (pool_id IS NULL OR pool_id = ANY(%s))"],
        params=[sorted(users), sorted(pools)],
    )
    return [scope for scope in rows if (scope.user_id, scope.pool_id) in wanted]


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
    """New numbers of one scope. ``limits`` and ``guaranteed`` by quantity, ``counts`` by name; absent = unchanged."""

    pool: Pool | None
    limits: Mapping[str, int | None]
    guaranteed: Mapping[str, int]
    counts: Mapping[str, int | None]


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
        _apply(scope, change)
        scope.save()
        changed.append(scope)
        after = numbers(scope)
        if before != after:
            record(
                at=now,
                actor=actor.username,
                via=actor.via,
                action="quota.set",
                target_type="quota",
                target="/".join((group.name, user.username if user else "*", change.pool.name if change.pool else "*")),
                group=group.name,
                before={key: value for key, value in before.items() if after[key] != value},
                after={key: value for key, value in after.items() if before[key] != value},
            )
    send_once_on_commit("scheduling.decide")
    return changed


def numbers(scope: QuotaScope) -> dict[str, int | None]:
    """The settable numbers of a scope, by column."""
    columns = [f"{q}_limit" for q in QUANTITIES] + [f"{q}_guaranteed" for q in GUARANTEED] + list(COUNTS)
    return {column: getattr(scope, column) for column in columns}


def _apply(scope: QuotaScope, change: QuotaChange) -> None:
    for quantity, limit in change.limits.items():
        setattr(scope, f"{quantity}_limit", limit)
        used = getattr(scope, f"{quantity}_used")
        setattr(scope, f"{quantity}_over", used if limit is not None and used > limit else 0)
    for quantity, amount in change.guaranteed.items():
        setattr(scope, f"{quantity}_guaranteed", amount)
    for name, count in change.counts.items():
        setattr(scope, name, count)
    for quantity in GUARANTEED:
        limit, floor = getattr(scope, f"{quantity}_limit"), getattr(scope, f"{quantity}_guaranteed")
        if limit is not None and floor > limit:
            message = f"The guaranteed {floor} is more than the limit {limit}."
            raise InvalidInputError(message, errors=[FieldError(f"{quantity}.guaranteed", "above_limit", message)])
