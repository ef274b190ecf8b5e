"""The wake socket: tells a node that its desired state changed. A hint; the heartbeat's answer says the same later."""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from aistation.agents.authentication import authenticate
from aistation.core.errors import UnauthenticatedError
from aistation.fleet.selectors import desired_version
from aistation.fleet.services import node_group

logger = logging.getLogger(__name__)

REVOKED: Final = 4401
TRY_AGAIN_LATER: Final = 1013


class WakeConsumer(AsyncWebsocketConsumer):  # type: ignore[misc] # Channels has no types
    """One socket of one node. The credential is looked up again before each message."""

    group = ""

    async def connect(self) -> None:
        """Join the node's group before reading the version: a change in between is told twice, never missed."""
        try:
            node_id, _ = await self._look_up()
            await self.channel_layer.group_add(node_group(node_id), self.channel_name)
        except UnauthenticatedError:
            await self.close(REVOKED)
            return
        except Exception as error:
            logger.warning("wake socket refused: %s", type(error).__name__)  # database or Redis away
            await self.close(TRY_AGAIN_LATER)
            return
        self.group = node_group(node_id)
        await self.accept()
        await self._tell()

    async def disconnect(self, code: int) -> None:
        if self.group:
            await self.channel_layer.group_discard(self.group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Agents have nothing to say here."""

    async def wake(self, message: Mapping[str, Any]) -> None:
        await self._tell()

    async def revoked(self, message: Mapping[str, Any]) -> None:
        await self.close(REVOKED)

    async def _tell(self) -> None:
        try:
            _, version = await self._look_up()
        except UnauthenticatedError:
            await self.close(REVOKED)
            return
        except Exception as error:
            logger.warning("wake not sent: %s", type(error).__name__)  # the next heartbeat tells
            return
        await self.send(text_data=json.dumps({"version": version}))

    async def _look_up(self) -> tuple[int, int]:
        value: bytes = dict(self.scope["headers"]).get(b"authorization", b"")
        found: tuple[int, int] = await _node_and_version(value.decode("latin-1"))
        return found


@database_sync_to_async  # type: ignore[untyped-decorator] # Channels has no types
def _node_and_version(authorization: str) -> tuple[int, int]:
    """The node's id and the version of its desired state. UnauthenticatedError: it was removed."""
    identity = authenticate(authorization)
    version = desired_version(identity.node_id)
    if version is None:
        raise UnauthenticatedError("This node was removed.")
    return identity.node_id, version
