"""WebSocket routes of the pages. Who mounts them checks the Origin and reads the session."""

from django.urls import URLPattern, path

from aistation.portal.consumers import LiveConsumer

websocket_urlpatterns: list[URLPattern] = [path("ws/live/", LiveConsumer.as_asgi())]
