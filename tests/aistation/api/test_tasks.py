"""What is not kept for ever."""

from datetime import timedelta

from aistation.api.models import IdempotencyRecord
from aistation.api.tasks import prune_task
from aistation.celery_app import app
from aistation.core.clock import now
from tests.factories.api import JOB, Api


def test_old_answers_go_and_young_ones_stay(alice: Api) -> None:
    alice.post("/jobs", JOB, idempotency_key="old")
    IdempotencyRecord.objects.update(created_at=now() - timedelta(hours=25))
    alice.post("/jobs", JOB, idempotency_key="young")
    prune_task()
    assert list(IdempotencyRecord.objects.values_list("key", flat=True)) == ["young"]


def test_the_task_is_on_the_clock() -> None:
    assert "api.prune" in {entry["task"] for entry in app.conf.beat_schedule.values()}
