"""HTTP as ASGI in front of Django's synchronous handler.

Django under ASGI opens a database connection for each request, because each runs in a thread of its own. So ordinary
requests go to a fixed set of threads, which keep their connections; only answers without an end are asynchronous.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, TypeAlias, cast
from urllib.parse import quote_from_bytes

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.core.signals import request_started
from django.db import connections
from django.http.response import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import set_script_prefix

from aistation.core.errors import DomainError
from aistation.core.problems import problem

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_PRINTABLE: Final = "".join(chr(code) for code in range(0x21, 0x7F))


@dataclass(frozen=True, slots=True)
class Answer:
    """A response as messages of ASGI. ``body`` None: it was streamed already."""

    start: Message
    body: bytes | None


class ThreadedHandler(BaseHandler):
    """Django's synchronous handler in a fixed set of threads, which keep their database connections.

    The whole of an answer comes back in one step: a bridge over WSGI takes several between thread and loop for each
    request, which cost more than many a view.
    """

    def __init__(self, threads: int) -> None:
        super().__init__()
        self.load_middleware(is_async=False)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="web")
        self._asgi = ASGIHandler.__new__(ASGIHandler)  # only makes requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive()).get("body", b"")
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._threads, self._answer, scope, body, send, loop)
        if answer.body is not None:
            await send(answer.start)
            await send({"type": "http.response.body", "body": answer.body})

    def _answer(self, scope: Scope, body: bytes, send: Send, loop: asyncio.AbstractEventLoop) -> Answer:
        set_script_prefix(get_script_prefix(scope))
        request_started.send(sender=type(self), scope=scope)
        request, refusal = self._asgi.create_request(scope, BytesIO(body))
        response = cast("HttpResponseBase", refusal if request is None else self.get_response(request))
        try:
            start = _start_of(response)
            if not response.streaming:
                return Answer(start, cast("HttpResponse", response).content)
            self._stream(start, cast("StreamingHttpResponse", response), send, loop)
            return Answer(start, None)
        finally:
            response.close()

    def _stream(
        self, start: Message, response: StreamingHttpResponse, send: Send, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Send piece by piece, each when the one before has gone: memory stays bounded."""

        def tell(message: Message) -> None:
            asyncio.run_coroutine_threadsafe(cast("Any", send(message)), loop).result()

        tell(start)
        for piece in response:
            tell({"type": "http.response.body", "body": bytes(piece), "more_body": True})
        tell({"type": "http.response.body", "body": b""})


def _start_of(response: HttpResponseBase) -> Message:
    headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    headers += [(b"set-cookie", cookie.OutputString().encode("ascii")) for cookie in response.cookies.values()]
    return {"type": "http.response.start", "status": response.status_code, "headers": headers}


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
