"""Who decides now. Election is for efficiency; the epoch in each write is for correctness.

The lease is judged by the database's clock and renewed by a thread of the holder: one that is killed or stopped
is replaced after `LEASE_MS`, and what it writes afterwards carries an older epoch and is refused.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from django.db import connection, connections
from django.db.models import F

from aistation.scheduling.models import SchedulerLease

LEASE_MS: Final = 1000
RENEW_S: Final = 0.3


class StaleEpochError(Exception):
    """Another scheduler has taken over; what we were about to write is void."""


@dataclass(frozen=True, slots=True)
class Held:
    """The lease is ours. ``requested`` is the count of wishes for a decision when it began."""

    epoch: int
    requested: int


@contextmanager
def hold(holder: str) -> Iterator[Held | None]:
    """The lease for the time of the block, or None when somebody else decides; then the wish is noted, and the
    holder goes round once more."""
    held = _acquire(holder)
    if held is None:
        SchedulerLease.objects.filter(pk=1).update(requested=F("requested") + 1)
        yield None
        return
    done = threading.Event()
    renewer = threading.Thread(target=_renew, args=(held.epoch, done), name="lease", daemon=True)
    renewer.start()
    try:
        yield held
    finally:
        done.set()
        _execute(
            "UPDATE scheduling_schedulerlease SET expires_at = clock_timestamp(), holder = '' WHERE epoch = %s",
            held.epoch,
        )


def wishes() -> int:
    """How often a decision has been asked for while somebody decided."""
    return SchedulerLease.objects.values_list("requested", flat=True).get(pk=1)


def assert_epoch(epoch: int) -> None:
    """Lock the lease row against a change of leader until the transaction ends. Raises StaleEpochError."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT epoch FROM scheduling_schedulerlease WHERE id = 1 FOR SHARE")
        row = cursor.fetchone()
    if row is None or row[0] != epoch:
        raise StaleEpochError(f"epoch {epoch} is over")


def _acquire(holder: str) -> Held | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduling_schedulerlease (id, holder, epoch, expires_at, requested, last_error)"
            " VALUES (1, '', 0, '-infinity', 0, '') ON CONFLICT DO NOTHING"
        )
        cursor.execute(
            "UPDATE scheduling_schedulerlease SET holder = %s, epoch = epoch + 1,"
            " expires_at = clock_timestamp() + %s * interval '1 millisecond'"
            " WHERE id = 1 AND expires_at <= clock_timestamp() RETURNING epoch, requested",
            [holder, LEASE_MS],
        )
        row = cursor.fetchone()
    return Held(*row) if row else None


def _renew(epoch: int, done: threading.Event) -> None:
    try:
        while not done.wait(RENEW_S):
            _execute(
                "UPDATE scheduling_schedulerlease SET expires_at = clock_timestamp() + %s * interval '1 millisecond'"
                " WHERE epoch = %s AND holder <> ''",  # a renewal that comes after the release is none
                LEASE_MS,
                epoch,
            )
    finally:
        connections.close_all()


def _execute(statement: str, *values: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
