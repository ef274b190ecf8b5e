"""Write the audit log. Call it in the transaction of the write that it describes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from aistation.audit.models import AuditEvent


class Doer(Protocol):
    """Who wrote, and through what. The policy's ``Actor`` is one."""

    @property
    def username(self) -> str: ...

    @property
    def via(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Program:
    """A doer that is no person."""

    username: str
    via: str


SYSTEM = Program("system", "system")


def agent_of(node: str) -> Program:
    """The agent of the node of this name."""
    return Program(f"node:{node}", "agent")


def record(  # noqa: PLR0913 - the columns of the log
    doer: Doer | None,
    at: datetime,
    action: str,
    target_type: str,
    target: str,
    *,
    group: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Append one event. ``doer`` None: the installation itself.

    ``before`` and ``after`` hold changed values only, never a secret.
    """
    who = doer or SYSTEM
    AuditEvent.objects.create(
        at=at,
        actor=who.username,
        via=who.via,
        action=action,
        target_type=target_type,
        target=target,
        group=group,
        before=dict(before) if before is not None else None,
        after=dict(after) if after is not None else None,
    )
