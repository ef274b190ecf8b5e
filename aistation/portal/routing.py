"""WebSocket routes of the portal."""

from django.urls import URLPattern

websocket_urlpatterns: list[URLPattern] = []
