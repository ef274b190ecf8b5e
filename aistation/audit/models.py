"""The audit log."""

from django.db import models


class AuditEvent(models.Model):
    """One write: who, through what, to what, before and after. Rows are never changed (a trigger refuses it)."""

    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=64, help_text="user name, node:NAME, or system")
    via = models.CharField(max_length=80, help_text="session, token:NAME, agent, system")
    action = models.CharField(max_length=64)
    target_type = models.CharField(max_length=32)
    target = models.CharField(max_length=128)
    group = models.CharField(max_length=64, blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["target_type", "target", "-id"], name="audit_target"),
            models.Index(fields=["actor", "-id"], name="audit_actor"),
        ]
