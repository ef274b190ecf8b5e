"""Quota scopes while a plan is being made: who may still take how much."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from scheduler.capacity import Ask
from scheduler.model import Kind, Limit, Request, Scope

QUANTITIES: Final = ("gpu_milli", "cpu_milli", "memory_mib", "environments", "running_jobs")
Amounts: TypeAlias = tuple[int, int, int, int, int]
"""One number for each of `QUANTITIES`."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A limit that a request does not fit under. ``used`` is 0 when use was left aside."""

    scope: Scope
    quantity: str
    limit: int
    used: int
    asked: int


def charge_of(kind: Kind, ask: Ask) -> Amounts:
    """What all tasks of a request together cost each scope that they count in. A replica is no job."""
    return (
        ask.card_milli,
        ask.cpu_milli * ask.tasks,
        ask.memory_mib * ask.tasks,
        int(kind is Kind.ENVIRONMENT),
        int(kind is Kind.JOB),
    )


class Ledger:
    """Use and limits of all scopes, kept up to date as requests are placed."""

    def __init__(self, scopes: Iterable[Scope]) -> None:
        self._accounts: dict[tuple[str, str | None, str | None], list[_Account]] = {}
        for scope in sorted(scopes, key=lambda one: one.id):
            key = (scope.group_id, scope.user_id, scope.pool_id)
            self._accounts.setdefault(key, []).append(_Account(scope))
        self._of: dict[tuple[str, str, str], tuple[_Account, ...]] = {}
        self._of_users: dict[tuple[str, str | None, str], tuple[_Account, ...]] = {}

    def allows(self, request: Request, charge: Amounts) -> bool:
        """True when every scope of the request has room. What a request does not ask for cannot stop it."""
        for account in self._accounts_of(request):
            used = account.used
            for place, limit in account.limits:
                if charge[place] and used[place] + charge[place] > limit:
                    return False
        return True

    def take(self, request: Request, charge: Amounts) -> None:
        for account in self._accounts_of(request):
            for place, amount in enumerate(charge):
                account.used[place] += amount

    def give(self, request: Request, charge: Amounts) -> None:
        """Undo `take`."""
        for account in self._accounts_of(request):
            for place, amount in enumerate(charge):
                account.used[place] -= amount

    def shortfalls(self, request: Request, charge: Amounts, *, ignore_use: bool = False) -> tuple[Shortfall, ...]:
        """Every limit that forbids the request: the group's before the user's, then by scope id."""
        found = []
        for account in self._accounts_of(request):
            for place, limit in account.limits:
                used = 0 if ignore_use else account.used[place]
                if charge[place] and used + charge[place] > limit:
                    found.append(Shortfall(account.scope, QUANTITIES[place], limit, used, charge[place]))
        return tuple(found)

    def key_of(self, request: Request) -> int:
        """The same for all requests that count in the same scopes."""
        return id(self._accounts_of(request))

    def _accounts_of(self, request: Request) -> tuple["_Account", ...]:
        key = (request.group_id, request.user_id, request.pool_id)
        found = self._of.get(key)
        if found is None:
            group = self._of_user(request, None)
            own = self._of_user(request, request.user_id)
            found = self._of[key] = group + own if own else group
        return found

    def _of_user(self, request: Request, user_id: str | None) -> tuple["_Account", ...]:
        key = (request.group_id, user_id, request.pool_id)
        found = self._of_users.get(key)
        if found is None:
            found = self._of_users[key] = tuple(
                account
                for pool_id in (request.pool_id, None)
                for account in self._accounts.get((request.group_id, user_id, pool_id), ())
            )
        return found


class _Account:
    """One scope: its limited quantities as (place, limit), and the use of all."""

    __slots__ = ("limits", "scope", "used")

    def __init__(self, scope: Scope) -> None:
        all_limits: tuple[Limit, ...] = tuple(getattr(scope, quantity) for quantity in QUANTITIES)
        self.scope = scope
        self.limits = [(place, limit.limit) for place, limit in enumerate(all_limits) if limit.limit is not None]
        self.used = [limit.used for limit in all_limits]
