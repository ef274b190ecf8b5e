import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from aistation.jobs.services import submit_job
from aistation.tenancy.models import User
from aistation.tenancy.policy import Role
from aistation.tenancy.selectors import actor_of
from aistation.workloads.models import Workload
from tests.factories.work import submitted
from tests.factories.world import T0, Site, a_group, a_submission

pytestmark = pytest.mark.django_db
REASON = {
    "code": "quota_group",
    "message": "group audio over all pools uses 6 cards of 6 cards, this needs 1 card",
    "numbers": {"scope": "audio/*/*", "quantity": "gpu_milli", "limit": 6000, "used": 6000, "asked": 1000},
}


@pytest.fixture
def foreign(site: Site) -> Workload:
    """A job of another group, first in the queue."""
    a_group("audio", mallory=Role.MEMBER)
    actor = actor_of(User.objects.get(username="mallory").pk)
    assert actor is not None
    job = submit_job(
        actor=actor, submission=a_submission(name="secret project", group="audio", priority=90), now=T0 + timedelta(1)
    )
    Workload.objects.filter(pk=job.pk).update(pending_reasons=[REASON])
    return job


def places(page: str) -> list[str]:
    section = page[page.rindex('<section class="card">') :]
    return re.findall(r'<tr[^>]*>\s*<td class="num state-cell"><strong>(\d+)</strong>', section)


def test_the_queue_stands_in_the_schedulers_order_with_numbers(
    site: Site, browser_of: Callable[[User], Client]
) -> None:
    low, high = submitted(site, name="low", priority=10), submitted(site, name="high", priority=80)
    Workload.objects.filter(pk=low.pk).update(pending_reasons=[REASON])
    page = browser_of(site.user).get("/queue").content.decode()
    pool = page[page.rindex('<section class="card">') :]
    assert pool.index(high.uid) < pool.index(low.uid)
    assert places(page) == ["1", "2"]
    assert "uses 6 cards of 6 cards, this needs 1 card" in page


def test_another_groups_work_counts_but_shows_nobody(
    site: Site, foreign: Workload, browser_of: Callable[[User], Client]
) -> None:
    mine = submitted(site, name="mine")
    page = browser_of(site.user).get("/queue").content.decode()
    assert places(page) == ["1", "2"]
    assert mine.uid in page
    for hidden in ("secret project", foreign.uid, "mallory", "audio"):
        assert hidden not in page
    assert "another group" in page
    assert "group quota" in page


def test_reasons_speak_chinese_with_the_same_numbers(site: Site, browser_of: Callable[[User], Client]) -> None:
    job = submitted(site)
    Workload.objects.filter(pk=job.pk).update(pending_reasons=[REASON])
    browser = browser_of(site.user)
    browser.cookies["django_language"] = "zh-hans"
    page = browser.get("/queue").content.decode()
    assert "uses 6 cards" not in page
    assert re.search(r"6 .*1 ", page)


def test_held_work_is_shown_to_its_owner_without_a_place(site: Site, browser_of: Callable[[User], Client]) -> None:
    job = submitted(site)
    Workload.objects.filter(pk=job.pk).update(state="held")
    page = browser_of(site.user).get("/queue").content.decode()
    assert job.uid in page
    assert "Nobody waits here." in page


def test_an_expected_start_is_shown_on_the_queue_and_on_the_job(
    site: Site, browser_of: Callable[[User], Client]
) -> None:
    known, unknown = submitted(site), submitted(site)
    Workload.objects.filter(pk=known.pk).update(earliest_start=T0, latest_start=T0 + timedelta(hours=1))
    client = browser_of(site.user)
    page = client.get("/queue").content.decode()
    assert page.count("Expected start: about") == 2  # among mine and in the pool
    assert page.count("cannot be said, because the scheduler has not looked at it yet") == 2
    assert "2026-01-05 09:00 UTC</time> to <time" in page
    assert "2026-01-05 10:00 UTC" in client.get(f"/jobs/{known.uid}").content.decode()
    assert "cannot be said" in client.get(f"/jobs/{unknown.uid}").content.decode()
