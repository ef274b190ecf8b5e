"""HTTP in front of the threads: bodies are read first, connections are few, logs that are followed hold none."""

import asyncio
import http.client
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection

from aistation.core.asgi import HttpApplication
from aistation.core.clock import now
from aistation.tenancy.services import create_token
from tests.conftest import AsgiServer
from tests.factories.work import placed
from tests.factories.world import a_node, a_site


class Recorder:
    """An application that notes what it was asked and answers 204."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, Any], bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append((scope, (await receive())["body"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Exchange:
    """One request piece by piece; after the last piece the client waits, or goes."""

    def __init__(self, *pieces: bytes, goes: bool = False, **scope: Any) -> None:
        last = len(pieces) - 1
        sent = [
            {"type": "http.request", "body": piece, "more_body": index < last} for index, piece in enumerate(pieces)
        ]
        self.pieces: Iterator[dict[str, Any]] = iter([{"type": "http.disconnect"}] if goes else sent)
        self.scope = {"type": "http", "path": "/", "query_string": b"", "headers": [], **scope}
        self.sent: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        for piece in self.pieces:
            return piece
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def run(self, timeout_s: float = 5) -> Recorder:
        threaded = Recorder()
        application = HttpApplication(
            threaded=threaded,
            endless=Recorder(),
            is_endless=lambda scope: False,
            longest_body=100,
            body_timeout_s=timeout_s,
        )
        await application(self.scope, self.receive, self.send)
        return threaded


async def test_a_chunked_body_arrives_whole_with_its_length() -> None:
    exchange = Exchange(b"ab", b"", b"cd", headers=[(b"transfer-encoding", b"chunked"), (b"a", b"b")])
    ((scope, body),) = (await exchange.run()).seen
    assert body == b"abcd"
    assert sorted(scope["headers"]) == [(b"a", b"b"), (b"content-length", b"4")]


async def test_a_request_without_body_gets_no_length() -> None:
    ((scope, body),) = (await Exchange(b"").run()).seen
    assert (scope["headers"], body) == ([], b"")


async def test_a_query_of_any_bytes_becomes_ascii_with_the_same_meaning() -> None:
    ((scope, _),) = (await Exchange(b"", query_string="q=\u00fc&a=%20+b".encode()).run()).seen
    assert scope["query_string"] == b"q=%C3%BC&a=%20+b"


async def test_a_body_that_is_too_long_never_takes_a_thread() -> None:
    exchange = Exchange(b"x" * 60, b"x" * 60)
    assert (await exchange.run()).seen == []
    assert exchange.sent[0]["status"] == 413
    assert b"too_large" in exchange.sent[1]["body"]


async def test_a_body_that_does_not_come_is_given_up() -> None:
    """B016: one peer's silence costs the others nothing."""
    exchange = Exchange()
    assert (await exchange.run(timeout_s=0.01)).seen == []
    assert exchange.sent[0]["status"] == 408


async def test_a_client_that_goes_is_forgotten() -> None:
    exchange = Exchange(goes=True)
    assert (await exchange.run()).seen == []
    assert exchange.sent == []


def get(server: AsgiServer, path: str, *, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    url = urlsplit(server.url)
    client = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
    try:
        client.request(method, path, headers=headers)
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


def connections_now() -> int:
    """Those of the server: all on this database but our own."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def test_many_requests_share_a_few_connections(asgi_server: AsgiServer) -> None:
    with ThreadPoolExecutor(32) as clients:
        answers = list(clients.map(lambda _: get(asgi_server, "/healthz")[0], range(200)))
    assert set(answers) == {200}
    assert connections_now() <= settings.WEB_THREADS + 1


def test_slow_senders_hold_up_nobody(asgi_server: AsgiServer) -> None:
    """B016: more of them than there are threads."""
    url = urlsplit(asgi_server.url)
    head = b"POST /agent/v1/heartbeat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    with ExitStack() as stack:
        for _ in range(settings.WEB_THREADS + 4):
            slow = stack.enter_context(socket.create_connection((url.hostname, url.port)))
            slow.sendall(head)
        started = time.monotonic()
        assert get(asgi_server, "/healthz")[0] == 200
        assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "path",
    ["/agent/v1/desired?\u00fc=\u00fc", "/agent/v1/\u00fc", "/agent/v1/%00", "/agent/v1/%ff", "/healthz?" + "a" * 3000],
)
def test_no_path_or_query_breaks_the_server(asgi_server: AsgiServer, path: str) -> None:
    """R27: raw bytes as a careless client sends them."""
    url = urlsplit(asgi_server.url)
    with socket.create_connection((url.hostname, url.port), timeout=10) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        status = int(client.makefile("rb").readline().split()[1])
    assert status < 500


def test_followed_logs_hold_neither_threads_nor_connections(asgi_server: AsgiServer) -> None:
    site = a_site()
    a_node("n1", site.pool)
    job = placed(site)
    token = create_token(
        user_id=site.user.pk, name="t", now=now(), expires_in_s=3600, longest_s=3600, actor=site.actor
    ).secret
    url = urlsplit(asgi_server.url)
    with ExitStack() as stack:
        for _ in range(settings.WEB_THREADS + 10):
            reader = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
            stack.callback(reader.close)
            reader.request(
                "GET", f"/api/v1/jobs/{job.uid}/logs?follow=true", headers={"Authorization": f"Bearer {token}"}
            )
            stack.enter_context(reader.getresponse())
        assert get(asgi_server, "/healthz")[0] == 200
        assert connections_now() <= settings.WEB_THREADS + 8
