"""Messages that leave when the transaction commits. They are hints: losing one costs seconds, never data."""

import asyncio
import logging
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

from channels.layers import get_channel_layer
from django.core.cache import cache
from django.db import transaction

from aistation.celery_app import app
from aistation.core.background import run_soon

logger = logging.getLogger(__name__)

_GATHER_S: Final = 0.05  # pages need no more than twenty words a second
_lock = threading.Lock()
_changed: set[str] = set()


def send_once_on_commit(task: str, *, within_s: int = 1) -> None:
    """Send a Celery task by name once the present transaction has committed. At most one message is under way: a burst
    of 200 submits needs one decision.

    The task calls `taken` first, so that a change after its start sends another one.
    """
    transaction.on_commit(lambda: _postman.send(task, within_s), robust=True)


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


def changed_on_commit(*topics: str) -> None:
    """Tell open pages, once committed, that what these topics name looks different now. A burst of changes is told
    once: under load a hundred jobs a second end in one group."""
    transaction.on_commit(lambda: _gather(topics), robust=True)


def _gather(topics: tuple[str, ...]) -> None:
    with _lock:
        is_first = not _changed
        _changed.update(topics)
    if is_first:
        run_soon(_tell_changed())


async def _tell_changed() -> None:
    await asyncio.sleep(_GATHER_S)
    with _lock:
        topics = sorted(_changed)
        _changed.clear()
    layer = get_channel_layer()
    try:
        for topic in topics:
            await layer.group_send(topic, {"type": "changed", "topic": topic})
    except Exception as error:
        logger.warning("%d changes were not told: %s", len(topics), type(error).__name__)


def _forget() -> None:
    """In a forked child: what was gathered is the parent's to tell, and threads stay behind."""
    global _lock, _changed, _postman
    _lock, _changed, _postman = threading.Lock(), set(), _Postman()


os.register_at_fork(after_in_child=_forget)


def _log_loss(group: str, done: Future[Any]) -> None:
    error = done.exception()
    if error is not None:
        logger.warning("broadcast to %s lost: %s", group, type(error).__name__)


class _Postman:
    """Sends tasks from a thread of its own: who commits does not wait for the transport, and what comes while a
    message is sent goes with the next one."""

    def __init__(self) -> None:
        self._wanted: dict[str, int] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def send(self, task: str, within_s: int) -> None:
        with self._changed:
            self._wanted[task] = within_s
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="postman", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted)
                wanted, self._wanted = self._wanted, {}
            for task, within_s in wanted.items():
                _send_once(task, within_s)


_postman = _Postman()


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
