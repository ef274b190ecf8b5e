"""Sends a log while it grows."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from channels.layers import get_channel_layer
from django.db import close_old_connections

from aistation.core.clock import now
from aistation.core.errors import DomainError
from aistation.workloads import logs, selectors

logger = logging.getLogger(__name__)
POLL_S: Final = 0.5
"""Also without a message a stream looks for news this often."""
AUTHORISATION_S: Final = 5
LOST_TAIL: Final = timedelta(seconds=30)
"""How long a stream waits for the rest of a log whose attempt is over: its node may be gone for good."""
_readers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="log-reader")
"""All streams share these few threads, and so a few database connections."""


@dataclass(slots=True)
class Following:
    """A reader's place in one task's log. ``attempt`` None: the latest one at the time that there is one."""

    workload_id: int
    workload_uid: str
    rank: int
    attempt: int | None
    stream: str | None
    offset: int
    task_id: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    data: bytes
    is_over: bool


async def follow(place: Following, still_allowed: Callable[[], None]) -> AsyncIterator[bytes]:
    """The log from ``place.offset`` on until its task has ended or ``still_allowed`` raises.

    Wakes up on the messages that tell of new bytes; a lost message costs half a second.
    """
    loop = asyncio.get_running_loop()
    checked_at = loop.time()
    async with _messages(f"log.{place.workload_uid}") as next_message:
        while True:
            news = next_message()
            if loop.time() - checked_at >= AUTHORISATION_S:
                if not await loop.run_in_executor(_readers, _holds, still_allowed):
                    return
                checked_at = loop.time()
            step = await loop.run_in_executor(_readers, _step, place, now())
            if step.data:
                yield step.data
            elif step.is_over:
                return
            else:
                await asyncio.wait({news}, timeout=POLL_S)


@contextlib.asynccontextmanager
async def _messages(group: str) -> AsyncIterator[Callable[[], "asyncio.Task[Any]"]]:
    """Gives a function that returns a task which ends with the next message of the group, or never."""
    layer = get_channel_layer()
    channel = ""
    waiting: asyncio.Task[Any] | None = None

    async def receive() -> None:
        try:
            await layer.receive(channel)
        except Exception as error:
            logger.warning("messages of %s are not available: %s", group, type(error).__name__)
            await asyncio.Event().wait()

    def next_message() -> "asyncio.Task[Any]":
        nonlocal waiting
        if waiting is None or waiting.done():
            waiting = asyncio.create_task(receive() if channel else asyncio.Event().wait())
        return waiting

    try:
        try:
            name = await layer.new_channel()
            await layer.group_add(group, name)
            channel = name
        except Exception as error:
            logger.warning("messages of %s are not available: %s", group, type(error).__name__)
        yield next_message
    finally:
        if waiting is not None:
            waiting.cancel()
        if channel:
            with contextlib.suppress(Exception):
                await layer.group_discard(group, channel)


def _holds(still_allowed: Callable[[], None]) -> bool:
    close_old_connections()
    try:
        still_allowed()
    except DomainError:
        return False
    return True


def _step(place: Following, instant: datetime) -> Step:
    """The next bytes, or that there are none, perhaps for good."""
    close_old_connections()
    task = selectors.find_task(place.workload_id, attempt=place.attempt, rank=place.rank)
    if task is None:
        return Step(b"", selectors.has_ended(place.workload_id))
    place.attempt = task.attempt.number
    data, place.offset = logs.read(task.pk, offset=place.offset, stream=place.stream)
    if data or place.offset < task.log_stored:
        return Step(data, is_over=False)
    if task.settled_at is not None:
        return Step(b"", is_over=True)
    ended_at = task.attempt.ended_at
    return Step(b"", is_over=ended_at is not None and ended_at < instant - LOST_TAIL)
