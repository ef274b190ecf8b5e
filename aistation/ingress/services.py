"""Writes of the gateway: passes are issued, redeemed, renewed and revoked."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection, transaction
from django.db.models import Exists, OuterRef

from aistation.audit.services import record
from aistation.core.errors import NotFoundError
from aistation.core.ids import new_secret
from aistation.ingress.models import Pass
from aistation.ingress.selectors import digest, is_good, live_passes, lock_code
from aistation.tenancy.policy import Actor
from aistation.workloads.lifecycle import State

CODE_LIFETIME: Final = timedelta(seconds=30)
PASS_LIFETIME: Final = timedelta(hours=12)
_OVERLAP: Final = timedelta(minutes=1)  # for requests under way with the cookie that a newer one replaces


@dataclass(frozen=True, slots=True)
class Redeemed:
    """``cookie`` is shown to the browser once and kept nowhere."""

    cookie: str
    next_path: str


def issue_code(
    *, actor: Actor, workload_id: int, session_key: str, session_hash: str, next_path: str, now: datetime
) -> str:
    """A code that this person's browser takes to the environment's host, good once and for half a minute.

    The caller has made sure that the person may enter.
    """
    code = new_secret()
    Pass.objects.create(
        workload_id=workload_id,
        user_id=actor.user_id,
        session_key=session_key,
        session_hash=session_hash,
        code_digest=digest(code),
        code_expires_at=now + CODE_LIFETIME,
        next_path=next_path,
        issued_at=now,
        expires_at=now + PASS_LIFETIME,
    )
    return code


@transaction.atomic
def redeem(*, code: str, uid: str, now: datetime) -> Redeemed:
    """Trade a code for the cookie of that environment's host. NotFoundError: unknown, used, late, or not for it."""
    locked = lock_code(code=code, uid=uid, now=now)
    if locked is None:
        raise NotFoundError
    found, actor = locked
    cookie = new_secret()
    found.cookie_digest, found.redeemed_at = digest(cookie), now
    found.save(update_fields=["cookie_digest", "redeemed_at"])
    replaced = Pass.objects.filter(
        workload_id=found.workload_id, session_key=found.session_key, redeemed_at__isnull=False, revoked_at=None
    )
    replaced.exclude(pk=found.pk).filter(expires_at__gt=now + _OVERLAP).update(expires_at=now + _OVERLAP)
    record(
        actor,
        now,
        "environment.open",
        "workload",
        uid,
        group=found.workload.group.name,
    )
    return Redeemed(cookie, found.next_path)


def renew(*, pass_id: int, expires_at: datetime, now: datetime) -> None:
    """Let a pass in use live on, once half of its time is over. One that a newer replaced is left to its end."""
    if _OVERLAP < expires_at - now < PASS_LIFETIME / 2:
        Pass.objects.filter(pk=pass_id, revoked_at=None).update(expires_at=now + PASS_LIFETIME)


def revoke_lost(now: datetime) -> int:
    """Revoke passes whose person signed out, was deactivated, or may not enter any more. Returns how many.

    The next publication cuts the connections of their environments.
    """
    lost = [found.pk for found, actor in live_passes(now) if not is_good(found, actor)]
    return Pass.objects.filter(pk__in=lost, revoked_at=None).update(revoked_at=now) if lost else 0


def prune(now: datetime) -> None:
    """Forget codes that were never used, passes that newer ones replaced, and those of environments at rest.

    Of a running environment the revoked ones stay: their number is its generation.
    """
    Pass.objects.filter(redeemed_at=None, code_expires_at__lt=now - timedelta(hours=1)).delete()
    newer = Pass.objects.filter(
        workload_id=OuterRef("workload_id"),
        session_key=OuterRef("session_key"),
        redeemed_at__isnull=False,
        expires_at__gt=OuterRef("expires_at"),
    )
    Pass.objects.filter(Exists(newer), redeemed_at__isnull=False, revoked_at=None, expires_at__lt=now).delete()
    Pass.objects.filter(expires_at__lt=now).exclude(workload__state=State.RUNNING).delete()


def next_version() -> int:
    """Begin a reading of the routes. Others wait until this transaction ends, so a higher version has seen more.

    It also follows the clock: a database restored from a backup does not fall behind the files.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ingress_publication AS last (id, version)"
            " VALUES (1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)"
            " ON CONFLICT (id) DO UPDATE SET version = greatest(last.version + 1, excluded.version)"
            " RETURNING version"
        )
        version: int = cursor.fetchone()[0]
    return version
