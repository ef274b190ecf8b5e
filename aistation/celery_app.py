"""The Celery application: `celery -A aistation.celery_app worker`, `... beat`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "aistation.settings.dev")

app = Celery("aistation")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.conf.beat_schedule = {
    "decide": {"task": "scheduling.decide", "schedule": 1.0, "options": {"expires": 2}},
    "sweep": {"task": "scheduling.sweep", "schedule": 2.0, "options": {"expires": 4}},
    "prune": {"task": "api.prune", "schedule": 900.0, "options": {"expires": 900}},
    "routes": {"task": "ingress.write_routes", "schedule": 2.0, "options": {"expires": 4}},
}
