"""Tells the server every few seconds that this node lives and what it has. Waits for nothing but the server."""

import hashlib
import logging
from collections.abc import Callable
from typing import Final

from agentapi.v1 import EnrolRequest, Heartbeat, Inventory
from gpuagent.client import (
    NODE_IDENTITY_IN_USE,
    PROTOCOL_UNSUPPORTED,
    UNAUTHENTICATED,
    Client,
    RefusedError,
    ServerError,
)
from gpuagent.identity import NodeIdentity
from gpuagent.standing import Standing
from gpuagent.store import Credential, Store
from gpuagent.threads import Loop

log = logging.getLogger(__name__)

_RETRY_S: Final = 2.0
_REFUSED_RETRY_S: Final = 15.0
_ENROL_RETRY_S: Final = 5.0
_LONGEST_INTERVAL_S: Final = 30


class Heart(Loop):
    """Enrols once, then beats. ``on_version`` is told the version of the desired state that the server holds."""

    def __init__(
        self,
        *,
        client: Client,
        store: Store,
        standing: Standing,
        identity: NodeIdentity,
        inventory: Callable[[], Inventory],
        on_version: Callable[[int | None], None],
    ) -> None:
        super().__init__("heartbeat")
        self._client = client
        self._store = store
        self._standing = standing
        self._me = identity
        self._inventory = inventory
        self._on_version = on_version
        self._is_reachable = True
        if credential := store.credential():
            client.node_token = credential.node_token

    def step(self) -> float:
        try:
            if not self._client.node_token:
                self._enrol()
            interval_s = self._beat()
        except RefusedError as error:
            return self._refused(error)
        except ServerError as error:
            if self._is_reachable:
                log.warning("the server is away, everything here goes on: %s", error)
            self._is_reachable = False
            return _RETRY_S
        if not self._is_reachable:
            log.info("the server is back")
        self._is_reachable = True
        return interval_s

    def _beat(self) -> float:
        reply = self._client.heartbeat(
            Heartbeat(
                fingerprint=self._me.fingerprint,
                boot_id=self._me.boot_id,
                agent_version=self._me.agent_version,
                address=self._me.address,
                inventory=self._inventory(),
            )
        )
        if self._standing.confirm():
            log.info("the server knows this node")
            self._on_version(None)
        else:
            self._on_version(reply.version)
        return float(max(1, min(reply.interval_s, _LONGEST_INTERVAL_S)))

    def _enrol(self) -> None:
        join_token, digest = self._join_token()
        reply = self._client.enrol(
            EnrolRequest(
                join_token=join_token,
                node_name=self._me.node_name,
                agent_version=self._me.agent_version,
                fingerprint=self._me.fingerprint,
            )
        )
        self._store.save_credential(Credential(reply.node_name, reply.node_token, digest))
        self._client.node_token = reply.node_token
        log.info("enrolled as node %s", reply.node_name)

    def _refused(self, error: RefusedError) -> float:
        if error.code == NODE_IDENTITY_IN_USE:
            if self._standing.mark_rival():
                log.error(
                    "another agent runs as this node (%s). Is this machine or its state directory a copy? "
                    "Nothing here is touched; remove %s on the copy and enrol it with a token of its own",
                    error,
                    self._store.root,
                )
        elif error.code == UNAUTHENTICATED and self._client.node_token and self._has_new_join_token():
            log.warning("the server does not know this node any more: enrolling again with the new join token")
            self._client.node_token = ""
            return 0.0
        elif error.code == UNAUTHENTICATED:
            log.error("the server refuses this node: %s. It needs a new join token in %s", error, self._me.token_file)
            return _REFUSED_RETRY_S if self._client.node_token else _ENROL_RETRY_S
        elif error.code == PROTOCOL_UNSUPPORTED:
            log.error("this agent is too old or too new for the server, update it: %s", error)
        else:
            log.warning("the server refused: %s", error)
            return _RETRY_S
        return _REFUSED_RETRY_S

    def _join_token(self) -> tuple[str, str]:
        try:
            token = self._me.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ServerError(f"there is no join token in {self._me.token_file}: {type(error).__name__}") from error
        return token, hashlib.sha256(token.encode()).hexdigest()

    def _has_new_join_token(self) -> bool:
        """True when the token file holds another token than the one this node was enrolled with."""
        credential = self._store.credential()
        try:
            return credential is None or self._join_token()[1] != credential.join_digest
        except ServerError:
            return False
