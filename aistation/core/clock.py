"""The only place that reads the clock. Services take instants as arguments; edges and tasks call ``now()``."""

from datetime import UTC, datetime

from django.db import connection


def now() -> datetime:
    """The present instant, UTC."""
    return datetime.now(UTC)  # noqa: TID251 - this is the one place


def database_now() -> datetime:
    """The database's clock: what leases and node liveness are judged by, the same for every process."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        instant: datetime = cursor.fetchone()[0]
    return instant
