"""That a form was sent."""

from django.conf import settings
from django.db import models


class FormReceipt(models.Model):
    """One sending of a form that makes something. A second sending of the same page finds ``url``, what it made."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    token = models.CharField(max_length=43)
    url = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "token"], name="form_receipt_once")]
