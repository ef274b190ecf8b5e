"""Routes under ``/agent/v1/``; the WebSocket is in `routing`."""

from django.urls import path

from aistation.agents import views

app_name = "agents"

urlpatterns = [
    path("enrol", views.enrol, name="enrol"),
    path("heartbeat", views.heartbeat, name="heartbeat"),
    path("report", views.report, name="report"),
    path("logs", views.logs_of_tasks, name="logs"),
    path("desired", views.desired, name="desired"),
]
