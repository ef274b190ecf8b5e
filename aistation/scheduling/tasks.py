"""Celery tasks: hints that something changed, and the ticks that find what a lost hint left."""

import logging

from celery import shared_task

from aistation.core.clock import database_now
from aistation.core.dispatch import taken
from aistation.scheduling.cycle import run_cycle
from aistation.scheduling.lease import StaleEpochError
from aistation.scheduling.sweeps import sweep

logger = logging.getLogger(__name__)


@shared_task(name="scheduling.decide")
def decide_task() -> None:
    """Run a scheduling cycle, unless somebody is at it."""
    taken("scheduling.decide")
    try:
        run_cycle()
    except StaleEpochError as error:
        logger.warning("gave up a plan: %s", error)


@shared_task(name="scheduling.sweep")
def sweep_task() -> None:
    sweep(database_now())
