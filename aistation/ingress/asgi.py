"""A way past the middleware for the gateway's question when the answer is known: a page asks it for every file."""

from io import BytesIO

from django.core.exceptions import SuspiciousOperation
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse

from aistation.core.asgi import Application, Receive, Scope, Send
from aistation.ingress.envoy import AUTHORIZE_PATH
from aistation.ingress.views import recent_answer


class RecentAnswers:
    """Answers from memory what was asked a moment ago; the rest goes to the application."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _recent(scope) if scope["path"].startswith(AUTHORIZE_PATH) else None
        if answer is None:
            await self._application(scope, receive, send)
            return
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.items()]
        headers.append((b"content-length", b"0"))
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _recent(scope: Scope) -> HttpResponse | None:
    try:
        return recent_answer(ASGIRequest(scope, BytesIO()))
    except SuspiciousOperation:  # a host name that is none of ours: Django says so
        return None
