"""Write the audit log. Call it in the transaction of the write that it describes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aistation.audit.models import AuditEvent


def record(  # noqa: PLR0913 - the columns of the log
    *,
    at: datetime,
    actor: str,
    via: str,
    action: str,
    target_type: str,
    target: str,
    group: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Append one event. ``before`` and ``after`` hold changed values only, never a secret."""
    AuditEvent.objects.create(
        at=at,
        actor=actor,
        via=via,
        action=action,
        target_type=target_type,
        target=target,
        group=group,
        before=dict(before) if before is not None else None,
        after=dict(after) if after is not None else None,
    )
