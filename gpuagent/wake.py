"""Listens for the server's word that the desired state changed. Only ever a hint: the loop also looks by itself."""

import json
import logging
import random
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from gpuagent.client import Client
from gpuagent.threads import Loop

log = logging.getLogger(__name__)

_PING_S: Final = 20.0
_OPEN_TIMEOUT_S: Final = 5.0
_FIRST_REST_S: Final = 0.25
_LONGEST_REST_S: Final = 5.0


class WakeListener(Loop):
    """Keeps one WebSocket open and calls ``on_wake(version)`` for each message; version is None when unknown.

    A new connection counts as a message, since one may have been missed before it.
    """

    def __init__(self, server: str, client: Client, on_wake: Callable[[int | None], None]) -> None:
        super().__init__("wake")
        parts = urlsplit(server)
        scheme = "wss" if parts.scheme == "https" else "ws"
        self._url = urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + "/agent/v1/wake", "", ""))
        self._client = client
        self._on_wake = on_wake
        self._failures = 0

    def step(self) -> float:
        if not self._client.node_token:
            return _FIRST_REST_S  # not enrolled yet
        try:
            self._listen()
        except (OSError, WebSocketException, EOFError) as error:
            if self._failures == 0:
                log.info("wake socket lost: %s", type(error).__name__)
        self._failures += 1
        longest = min(_LONGEST_REST_S, _FIRST_REST_S * 2.0**self._failures)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret

    def _listen(self) -> None:
        headers = {"Authorization": f"Bearer {self._client.node_token}"}
        with connect(
            self._url,
            additional_headers=headers,
            open_timeout=_OPEN_TIMEOUT_S,
            close_timeout=1,
            ping_interval=_PING_S,
            ping_timeout=_PING_S,
            max_size=64 * 1024,
            proxy=None,
        ) as socket:
            self._failures = 0
            self._on_wake(None)
            while not self.is_halted:
                try:
                    message = socket.recv(timeout=_OPEN_TIMEOUT_S)
                except TimeoutError:
                    self.note_alive()
                    continue
                self.note_alive()
                self._on_wake(_version(message))


def _version(message: str | bytes) -> int | None:
    try:
        version = json.loads(message)["version"]
    except (ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) else None
