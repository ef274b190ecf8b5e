"""The server: HTTP in threads that keep their database connections, WebSockets and endless answers in the loop."""

import os
import re
from typing import Any, Final, cast
from urllib.parse import parse_qs

import django
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import OriginValidator
from django.urls import re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "aistation.settings.dev")
django.setup(set_prefix=False)  # what follows needs the apps

from django.conf import settings  # noqa: E402

from aistation.agents.routing import websocket_urlpatterns as agents  # noqa: E402
from aistation.core.asgi import EndlessHandler, HttpApplication, Receive, Scope, Send, ThreadedHandler  # noqa: E402
from aistation.ingress.asgi import RecentAnswers  # noqa: E402
from aistation.portal.routing import websocket_urlpatterns as portal  # noqa: E402

_LOG: Final = re.compile(r"/api/v1/[a-z-]+/[^/]+/logs/?")
_NO: Final = ("", "0", "false", "no")


def follows_a_log(scope: Scope) -> bool:
    """``GET .../logs?follow=true``: an answer that lasts as long as the job; it must not keep a thread."""
    if not _LOG.fullmatch(scope["path"]):
        return False
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return query.get("follow", [""])[-1].lower() not in _NO


async def _no_such_socket(_scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 4404})


# Not the validator of ALLOWED_HOSTS: that would let the page of any environment in, with its visitor's cookies.
_portal_sockets = OriginValidator(
    AuthMiddlewareStack(URLRouter([*portal, re_path("", cast("Any", _no_such_socket))])),
    [settings.PORTAL_URL],
)

application = ProtocolTypeRouter(
    {
        "http": RecentAnswers(
            HttpApplication(
                threaded=ThreadedHandler(settings.WEB_THREADS),
                endless=cast("Any", EndlessHandler()),
                is_endless=follows_a_log,
                longest_body=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
                body_timeout_s=settings.BODY_TIMEOUT_S,
            )
        ),
        "websocket": URLRouter([*agents, re_path("", _portal_sockets)]),
    }
)
