"""Tables of the gateway: who was let into which environment, and the count of what was published."""

from django.db import models
from django.db.models import Q


class Pass(models.Model):
    """A browser's way into one environment, from one sign-in to the portal.

    It begins as a one-time code that the portal hands to the environment's host name, and becomes a cookie of that
    host when the code comes back. Both are kept as SHA-256 only.
    """

    workload = models.ForeignKey("workloads.Workload", on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey("tenancy.User", on_delete=models.CASCADE, related_name="+")
    session_key = models.CharField(max_length=40, help_text="the sign-in; the pass ends with it")
    session_hash = models.CharField(max_length=128, help_text="changes with the password")
    code_digest = models.BinaryField(max_length=32, unique=True)
    code_expires_at = models.DateTimeField()
    next_path = models.CharField(max_length=2000, help_text="where the person wanted to go in the environment")
    cookie_digest = models.BinaryField(max_length=32, unique=True, null=True)
    issued_at = models.DateTimeField()
    redeemed_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="pass_cookie_when_redeemed",
                condition=Q(redeemed_at=None, cookie_digest=None)
                | Q(redeemed_at__isnull=False, cookie_digest__isnull=False),
            )
        ]


class Publication(models.Model):
    """One row (id 1). ``version`` rises with each reading of the routes; its lock orders the readings."""

    version = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(name="one_publication", condition=Q(id=1))]
