"""From the rows to the gateway's files."""

from datetime import datetime

from django.conf import settings
from django.db import transaction

from aistation.ingress import files, selectors, services
from aistation.ingress.hosts import names
from aistation.ingress.routes import files as rendered


def write_routes(now: datetime) -> bool:
    """Take access from whom it is lost, and bring the gateway's files up to date. True when something was written.

    Safe to call from any number of processes: readings of the database come one after the other, and of two that
    write the older one gives way.
    """
    with transaction.atomic():
        version = services.next_version()
        services.revoke_lost(now)
        wanted = rendered(selectors.routes(), names())
    written = files.replace(settings.GATEWAY_DIR, wanted, version)
    services.prune(now)
    return written
