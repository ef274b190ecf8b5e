"""HTTP as ASGI in front of Django's synchronous handler.

Django under ASGI opens a database connection for each request, because each runs in a thread of its own. So ordinary
requests go to a fixed set of threads, which keep their connections; only answers without an end are asynchronous.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import quote_from_bytes

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.http.response import HttpResponseBase

from aistation.core.errors import DomainError
from aistation.core.problems import problem

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_PRINTABLE: Final = "".join(chr(code) for code in range(0x21, 0x7F))


class EndlessHandler(ASGIHandler):
    """Django's ASGI handler for answers that last: the request's own database connection ends before the answer
    begins, so that a hundred readers of logs do not hold a hundred connections."""

    async def send_response(
        self, response: HttpResponseBase, send: Callable[[Mapping[str, Any]], Awaitable[None]]
    ) -> None:
        await sync_to_async(connections.close_all)()  # in the request's thread, which opened it
        await super().send_response(response, send)


class BodyTooLargeError(DomainError):
    code = "too_large"
    status = 413


class BodyTooSlowError(DomainError):
    code = "request_timeout"
    status = 408


class HttpApplication:
    """Reads each body before a thread is taken, so that slow senders hold up nobody, and bounds its size and time.

    ``is_endless`` says which requests go to the ``endless`` application instead of the ``threaded`` one.
    """

    def __init__(
        self,
        *,
        threaded: Application,
        endless: Application,
        is_endless: Callable[[Scope], bool],
        longest_body: int,
        body_timeout_s: float,
    ) -> None:
        self._threaded = threaded
        self._endless = endless
        self._is_endless = is_endless
        self._longest_body = longest_body
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(self._body_timeout_s):
                body = await self._read_body(receive)
        except TimeoutError:
            await _refuse(send, BodyTooSlowError("The request's body came too slowly."))
            return
        except BodyTooLargeError as error:
            await _refuse(send, error)
            return
        if body is None:
            return  # the client has gone
        application = self._endless if self._is_endless(scope) else self._threaded
        await application(_with_body(scope, body), _replay(body, receive), send)

    async def _read_body(self, receive: Receive) -> bytes | None:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._longest_body:
                raise BodyTooLargeError(f"A request holds at most {self._longest_body} bytes.")
            if not message.get("more_body", False):
                return bytes(body)


def _with_body(scope: Scope, body: bytes) -> Scope:
    """``scope`` as WSGI can say it: with the body's length, also of a chunked one, and a query of ASCII."""
    hop = (b"content-length", b"transfer-encoding")
    headers = [(name, value) for name, value in scope["headers"] if name not in hop]
    if body or any(name in hop for name, _ in scope["headers"]):
        headers.append((b"content-length", str(len(body)).encode()))
    query = quote_from_bytes(scope["query_string"], safe=_PRINTABLE).encode()
    return {**scope, "headers": headers, "query_string": query}


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give out the body that was read, then whatever comes: the client's end."""
    is_given = False

    async def replayed() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


async def _refuse(send: Send, error: DomainError) -> None:
    body = json.dumps(problem(error)).encode()
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send(
        {"type": "http.response.start", "status": error.status, "headers": [*headers, (b"connection", b"close")]}
    )
    await send({"type": "http.response.body", "body": body})
