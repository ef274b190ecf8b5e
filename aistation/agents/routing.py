"""WebSocket routes of the agents."""

from django.urls import URLPattern, path

from aistation.agents.consumers import WakeConsumer

websocket_urlpatterns: list[URLPattern] = [path("agent/v1/wake", WakeConsumer.as_asgi())]
