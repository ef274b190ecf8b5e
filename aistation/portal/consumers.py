"""The page's socket: says that something looks different now, never what. The page refetches, with its rights."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase

from aistation.portal.live import actor_of_session, allowed_topics

logger = logging.getLogger(__name__)

REVOKED: Final = 4401
BAD_MESSAGE: Final = 4400
TRY_AGAIN_LATER: Final = 1013
CHECK_S: Final = 5
QUIET_S: Final = 0.5
"""Between two messages of one topic; what comes meanwhile is told once at its end."""
_LONGEST_MESSAGE: Final = 8192


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc] # Channels has no types
    """One socket of one page. Session and rights are looked up again every few seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: set[str] = set()
        self._session_key = ""
        self._checks: asyncio.Task[None] | None = None
        self._last: dict[str, float] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}

    async def connect(self) -> None:
        session = self.scope.get("session")
        self._session_key = (session and session.session_key) or ""
        await self.accept()  # a refusal before this would only be a failed handshake, which says nothing
        if await _allowed(self._session_key, ()) is None:
            await self.close(REVOKED)
            return
        self._checks = asyncio.create_task(self._check_on())

    async def disconnect(self, code: int) -> None:
        for task in (self._checks, *self._waiting.values()):
            if task is not None:
                task.cancel()
        for topic in self.topics:
            await self.channel_layer.group_discard(topic, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """``{"subscribe": [topics]}``; answered with those that were allowed. The last list counts."""
        wanted = _topics_in(text_data)
        if wanted is None:
            await self.close(BAD_MESSAGE)
            return
        allowed = await _allowed(self._session_key, wanted)
        if allowed is None:
            await self.close(REVOKED)
            return
        try:
            for topic in self.topics - set(allowed):
                await self.channel_layer.group_discard(topic, self.channel_name)
            for topic in set(allowed) - self.topics:
                await self.channel_layer.group_add(topic, self.channel_name)
        except Exception as error:
            logger.warning("live socket refused: %s", type(error).__name__)
            await self.close(TRY_AGAIN_LATER)
            return
        self.topics = set(allowed)
        await self.send(text_data=json.dumps({"subscribed": allowed}))

    async def changed(self, message: Mapping[str, Any]) -> None:
        """Of ``core.dispatch``: something about this topic has changed."""
        await self._tell(str(message["topic"]), {"topic": message["topic"]})

    async def log(self, message: Mapping[str, Any]) -> None:
        """A task's log has grown to ``stored`` bytes."""
        topic = "log." + str(message["task"]).rsplit("-", 2)[0]
        await self._tell(topic, {"topic": topic, "task": message["task"], "stored": message["stored"]})

    async def _tell(self, topic: str, body: Mapping[str, Any]) -> None:
        """At once, unless the topic was told within `QUIET_S`: then once, at the end of that time."""
        if topic not in self.topics or topic in self._waiting:
            return
        now = asyncio.get_running_loop().time()
        wait = self._last.get(topic, now - QUIET_S) + QUIET_S - now
        if wait > 0:
            self._waiting[topic] = asyncio.create_task(self._tell_later(topic, body, wait))
            return
        self._last[topic] = now
        await self.send(text_data=json.dumps(body))

    async def _tell_later(self, topic: str, body: Mapping[str, Any], wait: float) -> None:
        await asyncio.sleep(wait)
        del self._waiting[topic]
        self._last[topic] = asyncio.get_running_loop().time()
        if topic in self.topics:
            with contextlib.suppress(OSError, RuntimeError):  # the page has gone, and the word of that is on its way
                await self.send(text_data=json.dumps(body))

    async def _check_on(self) -> None:
        """Close when the session has ended or a topic is no longer this person's."""
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                allowed = await _allowed(self._session_key, tuple(self.topics))
            except Exception as error:
                logger.warning("live socket not checked: %s", type(error).__name__)
                continue
            if allowed is None or self.topics - set(allowed):
                await self.close(REVOKED)
                return


def _topics_in(text: str | None) -> list[str] | None:
    """None: not a message of ours."""
    if text is None or len(text) > _LONGEST_MESSAGE:
        return None
    try:
        message = json.loads(text)
    except ValueError:
        return None
    topics = message.get("subscribe") if isinstance(message, dict) else None
    return topics if isinstance(topics, list) else None


@database_sync_to_async  # type: ignore[untyped-decorator] # Channels has no types
def _allowed(session_key: str, topics: list[str] | tuple[str, ...]) -> list[str] | None:
    """Those of the topics that the session's person may hear now; None: there is no such session any more."""
    if not session_key:
        return None
    session: SessionBase = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    actor = actor_of_session(session)
    return None if actor is None else allowed_topics(actor, topics)
