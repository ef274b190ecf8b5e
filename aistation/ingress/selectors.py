"""Reads of the gateway: what a pass opens, and where the environments are."""

import ipaddress
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from django.contrib.sessions.models import Session
from django.db.models import Count, Exists, OuterRef, QuerySet
from django.utils.crypto import constant_time_compare

from aistation.ingress.models import Pass
from aistation.ingress.routes import Route
from aistation.tenancy.policy import Action, Actor, allows
from aistation.tenancy.selectors import actor_of, actors_of
from aistation.workloads.lifecycle import State
from aistation.workloads.selectors import running_environments

logger = logging.getLogger(__name__)
_HOST_NAME: Final = re.compile(r"(?=.{1,253}$)[a-zA-Z0-9_](?:[a-zA-Z0-9_.-]*[a-zA-Z0-9_])?")


@dataclass(frozen=True, slots=True)
class Entry:
    """What a good pass opens. ``access_token`` is the container's own."""

    pass_id: int
    access_token: str
    is_running: bool
    expires_at: datetime


def digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def find_entry(*, cookie: str, uid: str, now: datetime) -> Entry | None:
    """What this cookie opens at this environment now. None: it is unknown, another environment's, expired, or its
    owner may not enter any more."""
    found = _with_sign_in(Pass.objects.filter(cookie_digest=digest(cookie), workload__uid=uid), now).first()
    if found is None or found.expires_at <= now or not is_good(found, actor_of(found.user_id)):
        return None
    environment = found.workload
    return Entry(found.pk, environment.access_token, environment.state == State.RUNNING, found.expires_at)


def lock_code(*, code: str, uid: str, now: datetime) -> tuple[Pass, Actor] | None:
    """The pass that this code begins, locked, and its person. None: unknown, used, late, or not for this
    environment; or its owner may not enter any more."""
    codes = Pass.objects.filter(code_digest=digest(code), workload__uid=uid, redeemed_at=None, code_expires_at__gt=now)
    found = _with_sign_in(codes, now).select_for_update(of=("self",), no_key=True).first()
    actor = actor_of(found.user_id) if found else None
    return (found, actor) if found and actor and is_good(found, actor) else None


def live_passes(now: datetime) -> list[tuple[Pass, Actor | None]]:
    """All passes that may have open connections, each with its person. Two queries."""
    passes = list(_with_sign_in(Pass.objects.filter(redeemed_at__isnull=False), now))
    actors = actors_of({found.user_id for found in passes})
    return [(found, actors.get(found.user_id)) for found in passes]


def is_good(found: Pass, actor: Actor | None) -> bool:
    """Does the pass still stand on a sign-in, and may its person enter? Of rows that this module read."""
    environment = found.workload
    return (
        actor is not None
        and bool(found.signed_in)  # type: ignore[attr-defined]
        and constant_time_compare(found.session_hash, found.user.get_session_auth_hash())
        and environment.deleted_at is None
        and allows(actor, Action.OPEN_ENVIRONMENT, group_id=environment.group_id, owner_id=environment.user_id)
    )


def routes() -> list[Route]:
    """The running environments. One whose node gives no usable address is left out: Envoy would refuse them all."""
    generations = _generations()
    found = []
    for row in running_environments():
        if _is_address(row["address"]) and 1 <= row["host_port"] <= 65_535:
            uid = row["workload_uid"]
            found.append(Route(uid, row["address"], row["host_port"], generations.get(uid, 0)))
        else:
            logger.warning("environment %s has no usable address: %r", row["workload_uid"], row["address"][:80])
    return found


def _generations() -> Mapping[str, int]:
    """How often access to an environment was taken from somebody who was in."""
    rows = Pass.objects.filter(redeemed_at__isnull=False, revoked_at__isnull=False, workload__state=State.RUNNING)
    return dict(rows.values_list("workload__uid").annotate(Count("id")).order_by())


def _with_sign_in(rows: QuerySet[Pass], now: datetime) -> QuerySet[Pass]:
    session = Session.objects.filter(session_key=OuterRef("session_key"), expire_date__gt=now)
    return rows.filter(revoked_at=None).select_related("workload__group", "user").annotate(signed_in=Exists(session))


def _is_address(address: str) -> bool:
    try:
        return not getattr(ipaddress.ip_address(address), "scope_id", None)
    except ValueError:
        return bool(_HOST_NAME.fullmatch(address))
