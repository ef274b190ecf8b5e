"""Celery tasks of the edge: what must not be kept for ever."""

from celery import shared_task

from aistation.api.services import prune_answers
from aistation.core.clock import now
from aistation.tenancy.services import prune_login_failures


@shared_task(name="api.prune")
def prune_task() -> None:
    """Forget old answers to repeated requests, and old failed sign-ins."""
    instant = now()
    prune_answers(instant)
    prune_login_failures(instant)
