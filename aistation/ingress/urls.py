"""Addresses of the gateway: what Envoy asks, and the way into an environment."""

from django.urls import path, re_path

from aistation.ingress import views
from aistation.ingress.envoy import AUTHORIZE_PATH

app_name = "ingress"
urlpatterns = [
    re_path(rf"^{AUTHORIZE_PATH.lstrip('/')}(?:/[\s\S]*)?$", views.authorize, name="authorize"),
    path("environments/<str:uid>/open", views.open_environment, name="open"),
]
