"""The Celery task of the gateway: a hint, and the tick that finds what a lost hint left."""

from celery import shared_task

from aistation.core.clock import now
from aistation.core.dispatch import taken
from aistation.ingress.publish import write_routes


@shared_task(name="ingress.write_routes")
def write_routes_task() -> None:
    """Publish the running environments; access that ended is cut."""
    taken("ingress.write_routes")
    write_routes(now())
