"""Messages that leave when the transaction commits. They are hints: losing one costs seconds, never data."""

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from channels.layers import get_channel_layer
from django.core.cache import cache
from django.db import transaction

from aistation.celery_app import app
from aistation.core.background import run_soon

logger = logging.getLogger(__name__)


def send_once_on_commit(task: str, *, within_s: int = 1) -> None:
    """Send a Celery task by name once the present transaction has committed. At most one message is under way: a burst
    of 200 submits needs one decision.

    The task calls `taken` first, so that a change after its start sends another one.
    """
    transaction.on_commit(lambda: _send_once(task, within_s), robust=True)


def taken(task: str) -> None:
    """The task has begun: what happens from now on needs another message."""
    try:
        cache.delete("pending:" + task)
    except Exception as error:
        logger.warning("cache unavailable: %s", type(error).__name__)


def broadcast_on_commit(group: str, message: Mapping[str, Any]) -> None:
    """Tell the sockets of a Channels group, once committed. ``message`` has a ``type`` (the consumer's method)."""
    transaction.on_commit(lambda: broadcast(group, message), robust=True)


def broadcast(group: str, message: Mapping[str, Any]) -> None:
    """Tell the sockets of a group now, without waiting for the transport."""
    sent = run_soon(get_channel_layer().group_send(group, dict(message)))
    sent.add_done_callback(lambda done: _log_loss(group, done))


def _log_loss(group: str, done: Future[Any]) -> None:
    error = done.exception()
    if error is not None:
        logger.warning("broadcast to %s lost: %s", group, type(error).__name__)


def _send_once(task: str, within_s: int) -> None:
    try:
        if not cache.add("pending:" + task, 1, timeout=within_s):
            return
    except Exception as error:
        logger.warning("cache unavailable: %s", type(error).__name__)
        return
    try:
        app.send_task(task, ignore_result=True, retry=False)
    except Exception as error:
        logger.warning("message %s lost, the sweep will find the work: %s", task, type(error).__name__)
