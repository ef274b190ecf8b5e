"""What the API itself writes: answers to requests that come again, and refusals."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from django.db import OperationalError, connection

from aistation.api.errors import InProgressError, KeyReusedError
from aistation.api.models import IdempotencyRecord
from aistation.audit.services import record
from aistation.tenancy.policy import Actor

KEPT_FOR: Final = timedelta(hours=24)
_PATIENCE: Final = "5s"
_LOCK_NOT_AVAILABLE: Final = "55P03"


@dataclass(frozen=True, slots=True)
class Attempted:
    """A request as its key knows it. ``digest`` covers route and body."""

    user_id: int
    key: str
    route: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    status: int
    body: Any


def digest_of(route: str, body: bytes) -> bytes:
    return sha256(route.encode() + b"\0" + body).digest()


def claim_key(attempted: Attempted, now: datetime) -> StoredAnswer | None:
    """Take the key for this request, or find the answer of the first one that used it.

    Call it in the transaction that does the work, before the work: the key is taken only if that commits. A second
    request waits here for the first one's transaction. Raises InProgressError when that takes long, KeyReusedError
    when the key belongs to another request.
    """
    rows = IdempotencyRecord.objects.filter(user_id=attempted.user_id, key=attempted.key)
    rows.filter(created_at__lt=now - KEPT_FOR).delete()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [_PATIENCE])
            cursor.execute(
                "INSERT INTO api_idempotencyrecord (user_id, key, route, digest, created_at)"
                " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (user_id, key) DO NOTHING",
                [attempted.user_id, attempted.key, attempted.route, attempted.digest, now],
            )
            if cursor.rowcount:
                return None
    except OperationalError as error:
        if getattr(error.__cause__, "pgcode", None) == _LOCK_NOT_AVAILABLE:
            raise InProgressError("The first request with this key is still being worked on.") from error
        raise
    record = rows.get()
    if bytes(record.digest) != attempted.digest:
        raise KeyReusedError("This Idempotency-Key was used for another request. Choose a new one.")
    return StoredAnswer(record.status or 200, record.body)


def keep_answer(attempted: Attempted, answer: StoredAnswer) -> None:
    """Remember what the first request was answered, in its own transaction."""
    rows = IdempotencyRecord.objects.filter(user_id=attempted.user_id, key=attempted.key)
    rows.update(status=answer.status, body=answer.body)


def prune_answers(now: datetime) -> int:
    """Delete what is older than a day. Returns how many."""
    return IdempotencyRecord.objects.filter(created_at__lt=now - KEPT_FOR).delete()[0]


def record_refusal(*, actor: Actor, method: str, route: str, now: datetime) -> None:
    """Somebody tried what their role does not allow. Kept in the audit log."""
    record(
        actor,
        now,
        "access.refused",
        "route",
        f"{method} {route}"[:128],
    )


def serialise(place: str) -> None:
    """Let the transactions that change ``place`` pass one after the other (until each ends)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [place])
