"""Reads of the audit log."""

from django.db.models import QuerySet

from aistation.audit.models import AuditEvent


def list_events(
    *, actor: str | None = None, target_type: str | None = None, target: str | None = None, group: str | None = None
) -> QuerySet[AuditEvent]:
    """Events, newest first; each given word must match exactly. The caller has checked the right to read them."""
    words = {"actor": actor, "target_type": target_type, "target": target, "group": group}
    return AuditEvent.objects.filter(**{key: word for key, word in words.items() if word is not None}).order_by("-id")
