"""Answers kept for repeated requests."""

from django.db import models

from aistation.tenancy.models import User


class IdempotencyRecord(models.Model):
    """The answer to a POST with an ``Idempotency-Key``, kept for a day. ``status`` null: the first is under way."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    key = models.CharField(max_length=255)
    route = models.CharField(max_length=255)
    digest = models.BinaryField(max_length=32)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.JSONField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="idempotency_key_once")]
        indexes = [models.Index(fields=["created_at"], name="idempotency_age")]
