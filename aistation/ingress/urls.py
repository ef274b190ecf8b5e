"""Addresses of the gateway: what Envoy asks, and the way into an environment."""

from django.urls import path, re_path

from aistation.ingress import views
from aistation.ingress.envoy import AUTHORIZE_PATH
from aistation.ingress.routes import CLOSED_PATH, OWN_PATHS

app_name = "ingress"
urlpatterns = [
    re_path(rf"^{AUTHORIZE_PATH.lstrip('/')}(?:/[\s\S]*)?$", views.authorize, name="authorize"),
    path(CLOSED_PATH.lstrip("/"), views.closed, name="closed"),
    path(f"{OWN_PATHS.lstrip('/')}/enter", views.enter, name="enter"),
    path("environments/<str:uid>/open", views.open_environment, name="open"),
]
