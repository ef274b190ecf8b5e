"""The scheduler's lease."""

from django.db import models


class SchedulerLease(models.Model):
    """One row (id 1). Who decides now, until when by the database's clock, and the epoch that fences the late.

    ``requested`` rises when a change asks for a decision while somebody decides: the holder then goes round again.
    """

    holder = models.CharField(max_length=64, blank=True)
    epoch = models.BigIntegerField(default=0)
    expires_at = models.DateTimeField()
    requested = models.BigIntegerField(default=0)
    last_cycle_at = models.DateTimeField(null=True)
    last_cycle_ms = models.PositiveIntegerField(null=True)
    last_error = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(name="one_lease", condition=models.Q(id=1))]
