"""Writes of the portal itself."""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from django.db import connection, transaction

from aistation.portal.models import FormReceipt

KEPT_FOR: Final = timedelta(days=1)
_LONGEST: Final = 43


def new_form_token() -> str:
    """Goes into a hidden field of each form that makes something."""
    return secrets.token_urlsafe(24)


@transaction.atomic
def send_once(*, user_id: int, token: str, now: datetime, make: Callable[[], str]) -> str:
    """Call ``make`` unless a form with this token was sent before; the URL of what it made then or now.

    A second sending waits for the first one's transaction. When that fails nothing was sent, and the second one counts.
    A form without a token is simply sent.
    """
    if not token or len(token) > _LONGEST:
        return make()
    FormReceipt.objects.filter(user_id=user_id, created_at__lt=now - KEPT_FOR).delete()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO portal_formreceipt (user_id, token, url, created_at) VALUES (%s, %s, '', %s)"
            " ON CONFLICT (user_id, token) DO NOTHING",
            [user_id, token, now],
        )
        is_first = bool(cursor.rowcount)
    receipt = FormReceipt.objects.filter(user_id=user_id, token=token)
    if not is_first:
        return receipt.values_list("url", flat=True).get()
    url = make()
    receipt.update(url=url)
    return url
