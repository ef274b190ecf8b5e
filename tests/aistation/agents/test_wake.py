"""The wake socket against the real server and the real channel layer."""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from aistation.core.clock import now
from aistation.fleet import services
from aistation.fleet.models import Node
from aistation.tenancy.policy import Actor
from tests.aistation.agents.speaker import TOKEN, agent_of
from tests.conftest import AsgiServer
from tests.factories.world import a_node, a_pool

ADMIN = Actor(1, "root", is_platform_admin=True)
Open = Callable[..., AbstractContextManager[ClientConnection]]


@pytest.fixture
def open_socket(asgi_server: AsgiServer) -> Open:
    def make(token: str = TOKEN, path: str = "agent/v1/wake", **headers: str) -> Any:
        url = f"{asgi_server.url.replace('http', 'ws', 1)}/{path}"
        return connect(url, additional_headers={"Authorization": f"Bearer {token}", **headers}, proxy=None)

    return make


@pytest.fixture
def node(asgi_server: AsgiServer) -> Node:
    node = a_node("n1", a_pool(), cards=0)
    agent_of(node)
    return node


def version_in(socket: ClientConnection) -> int:
    found: int = json.loads(socket.recv(timeout=10))["version"]
    return found


def test_the_version_is_told_at_once_and_with_each_change(node: Node, open_socket: Open) -> None:
    with open_socket() as socket:
        assert version_in(socket) == 1
        services.bump_desired([node.pk])
        assert version_in(socket) == 2
        started = time.monotonic()
        services.bump_desired([node.pk])
        assert version_in(socket) == 3
        assert time.monotonic() - started < 2


def test_another_nodes_changes_are_not_told(node: Node, open_socket: Open) -> None:
    other = a_node("n2", node.pool, cards=0)
    with open_socket() as socket:
        assert version_in(socket) == 1
        services.bump_desired([other.pk])
        services.bump_desired([node.pk])
        assert version_in(socket) == 2


@pytest.mark.parametrize("token", ["", "wrong", "\u00e9"])
def test_without_a_credential_there_is_no_socket(node: Node, token: str, open_socket: Open) -> None:
    with pytest.raises(InvalidStatus) as refused, open_socket(token):
        pass
    assert refused.value.response.status_code == 403


def test_a_removed_nodes_socket_is_closed_at_once(node: Node, open_socket: Open) -> None:
    """S20"""
    with open_socket() as socket:
        assert version_in(socket) == 1
        services.remove_node(node_id=node.pk, now=now(), actor=ADMIN)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=5)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401


def test_what_an_agent_says_on_it_is_ignored(node: Node, open_socket: Open) -> None:
    with open_socket() as socket:
        assert version_in(socket) == 1
        for message in ("{", b"\xff", '{"type": "revoked"}', "x" * 100_000):
            socket.send(message)
        services.bump_desired([node.pk])
        assert version_in(socket) == 2


def test_an_unknown_path_has_no_socket(node: Node, open_socket: Open, asgi_server: AsgiServer) -> None:
    with pytest.raises(InvalidStatus), open_socket(path="ws/absent/", Origin=asgi_server.url):
        pass
    assert "Traceback" not in asgi_server.log.read_text()


def test_the_portals_socket_opens_for_the_portals_own_pages_only(asgi_server: AsgiServer, open_socket: Open) -> None:
    """S24: the page of an environment is of the same site, so the visitor's cookies would come along."""
    foreign = asgi_server.url.replace("localhost", "env-1.localhost")
    for headers in ({"Origin": foreign}, {"Origin": "https://elsewhere.example"}, {}):
        with pytest.raises(InvalidStatus), open_socket(path="ws/live/", **headers):
            pass
    with open_socket(path="ws/live/", Origin=asgi_server.url):
        pass
