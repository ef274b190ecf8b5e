"""One table for limits and use, so that a CHECK constraint can hold one against the other."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Greatest

from aistation.fleet.models import Pool
from aistation.tenancy.models import Group, User

QUANTITIES = ("gpu_milli", "cpu_milli", "memory_mib", "environments", "running_jobs")
"""What is counted while a workload holds resources. GPU in card equivalents (milli)."""
GUARANTEED = ("gpu_milli", "cpu_milli", "memory_mib")
"""Quantities that a scope may also be promised."""
COUNTS = ("max_queued_jobs", "max_environment_s", "max_priority")
"""Limits that a submit is held against; nothing is booked for them."""


class QuotaScope(models.Model):
    """A group, or one user of it, in one pool or (``pool`` null) over all pools.

    ``<quantity>_limit``: null = unlimited, 0 = nothing. ``_used``: what live allocations hold. ``_over``: use that
    existed when a limit was lowered below it; it only falls, and lets running work end in peace.
    """

    group = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="quota_scopes")
    user = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="quota_scopes")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, null=True, related_name="quota_scopes")

    gpu_milli_guaranteed = models.PositiveBigIntegerField(default=0)
    gpu_milli_limit = models.PositiveBigIntegerField(null=True)
    gpu_milli_used = models.BigIntegerField(default=0)
    gpu_milli_over = models.BigIntegerField(default=0)
    cpu_milli_guaranteed = models.PositiveBigIntegerField(default=0)
    cpu_milli_limit = models.PositiveBigIntegerField(null=True)
    cpu_milli_used = models.BigIntegerField(default=0)
    cpu_milli_over = models.BigIntegerField(default=0)
    memory_mib_guaranteed = models.PositiveBigIntegerField(default=0)
    memory_mib_limit = models.PositiveBigIntegerField(null=True)
    memory_mib_used = models.BigIntegerField(default=0)
    memory_mib_over = models.BigIntegerField(default=0)
    environments_limit = models.PositiveBigIntegerField(null=True)
    environments_used = models.BigIntegerField(default=0)
    environments_over = models.BigIntegerField(default=0)
    running_jobs_limit = models.PositiveBigIntegerField(null=True)
    running_jobs_used = models.BigIntegerField(default=0)
    running_jobs_over = models.BigIntegerField(default=0)

    weight = models.PositiveSmallIntegerField(
        default=1, help_text="of a group in a pool, when groups compete for what nobody is guaranteed"
    )
    usage = models.BigIntegerField(default=0, help_text="decayed card-equivalent milli-seconds of a group in a pool")
    usage_at = models.DateTimeField(null=True, help_text="up to when usage is counted")

    max_queued_jobs = models.PositiveIntegerField(null=True)
    max_environment_s = models.PositiveIntegerField(null=True)
    max_priority = models.PositiveSmallIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["group", "user", "pool"], name="quota_scope_once", nulls_distinct=False),
            models.CheckConstraint(name="quota_weight", condition=Q(weight__range=(1, 1000))),
            models.CheckConstraint(name="quota_priority", condition=Q(max_priority=None) | Q(max_priority__lte=100)),
            *(
                models.CheckConstraint(
                    name=f"quota_{quantity}_kept",
                    condition=Q(**{f"{quantity}_used__gte": 0})
                    & (
                        Q(**{f"{quantity}_limit": None})
                        | Q(**{f"{quantity}_used__lte": Greatest(F(f"{quantity}_limit"), F(f"{quantity}_over"))})
                    ),
                )
                for quantity in QUANTITIES
            ),
        ]
