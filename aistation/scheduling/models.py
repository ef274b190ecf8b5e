"""The scheduler's lease, and what it has learned."""

from django.db import models

from aistation.fleet.models import Pool


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


class TaskMix(models.Model):
    """How often what is asked of a pool. ``observed`` grows with each submit; ``used`` is what placing goes by, made
    anew when ``seen`` has reached ``due``: each new one costs some work."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="+")
    observed = models.JSONField(default=dict)
    used = models.JSONField(default=dict)
    revision = models.PositiveIntegerField(default=0, help_text="of what is used; 0: nothing yet")
    seen = models.PositiveBigIntegerField(default=0, help_text="tasks")
    due = models.PositiveBigIntegerField(default=100)
    last_transition = models.PositiveBigIntegerField(default=0)
