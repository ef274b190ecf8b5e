"""Lending rules, warm reserves, and where pages speak of lent and kept cards."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils.translation import override

from aistation.core.clock import now
from aistation.fleet.models import LendingRule, Pool, Reserve
from aistation.portal.hours import NIGHTS_AND_WEEKENDS, opening_of, spans_within, windows_text
from aistation.tenancy.models import User
from aistation.tenancy.policy import Role
from aistation.workloads.models import Allocation, QueueOrder, Workload
from tests.factories.work import placed, submitted
from tests.factories.world import T0, Site, a_group, a_node, a_pool

pytestmark = pytest.mark.django_db
ROWS = {"from_day": ["0", "4"], "from_time": ["20:00", "20"], "to_day": ["1", "0"], "to_time": ["08:00", "8:00"]}
FORM = {
    "name": "nights", "lender": "default", "borrower": "training", "time_zone": "Europe/Berlin", "take_back": "wait",
    "notice": "15 min", "keep_free_cards": "", "keep_free_slices": "8", "enabled": "on", **ROWS,
}  # fmt: skip


@pytest.fixture
def training(site: Site) -> Pool:
    return a_pool("training", slices=0, kinds=("job",))


@pytest.fixture
def root(make_user: Callable[..., User], browser_of: Callable[[User], Client]) -> Client:
    return browser_of(make_user("root", admin=True))


def a_rule(site: Site, borrower: Pool, **values: object) -> LendingRule:
    return LendingRule.objects.create(name="nights", lender=site.pool, borrower=borrower, created_at=T0, **values)


def test_windows_are_said_once_for_days_that_are_alike() -> None:
    assert windows_text(NIGHTS_AND_WEEKENDS) == ["Mon to Thu 20:00 – 08:00 the next day", "Fri 20:00 – Mon 08:00"]
    assert windows_text([(day * 1440 + 510, day * 1440 + 630) for day in range(5)]) == ["Mon to Fri 08:30 – 10:30"]
    assert windows_text([(6 * 1440, 0)]) == ["Sun 00:00 – 24:00"]
    with override("zh-hans"):
        assert "次日" in windows_text(NIGHTS_AND_WEEKENDS)[0]


def test_a_window_says_until_when_it_is_open_and_when_it_opens_next() -> None:
    evening = datetime(2026, 1, 5, 21, tzinfo=UTC)
    at_night = opening_of(NIGHTS_AND_WEEKENDS, "Europe/Berlin", evening)
    assert (at_night.is_open, at_night.closes_at) == (True, datetime(2026, 1, 6, 7, tzinfo=UTC))
    by_day = opening_of(NIGHTS_AND_WEEKENDS, "Europe/Berlin", evening - timedelta(hours=9))
    assert (by_day.is_open, by_day.opens_at) == (False, datetime(2026, 1, 5, 19, tzinfo=UTC))
    assert opening_of([], "UTC", evening).closes_at is None
    day = (evening - timedelta(hours=9), evening + timedelta(hours=15))
    assert list(spans_within(NIGHTS_AND_WEEKENDS, "Europe/Berlin", *day)) == [
        (datetime(2026, 1, 5, 19, tzinfo=UTC), datetime(2026, 1, 6, 7, tzinfo=UTC))
    ]
    assert list(spans_within([], "UTC", *day)) == [day]


def test_a_rule_is_made_changed_stopped_and_deleted(site: Site, training: Pool, root: Client) -> None:
    assert root.post("/lending/new", FORM).status_code == 303
    rule = LendingRule.objects.get()
    assert rule.windows == [[1200, 1920], [6960, 480]]
    assert (rule.notice_s, rule.keep_free_slices, rule.keep_free_cards, rule.take_back) == (900, 8, 0, "wait")
    page = root.get("/lending").content.decode()
    assert "Mon 20:00 – Tue 08:00" in page
    assert "clock of Europe/Berlin" in page
    root.post("/lending/nights/change", {**FORM, "take_back": "checkpoint", "from_time": "", "to_time": ""})
    rule.refresh_from_db()
    assert (rule.windows, rule.take_back) == ([], "checkpoint")
    assert "Stop lending by nights?" in root.post("/lending/nights/disable").content.decode()
    assert LendingRule.objects.get().enabled
    root.post("/lending/nights/disable", {"confirmed": "yes"})
    assert not LendingRule.objects.get().enabled
    root.post("/lending/nights/enable")
    assert LendingRule.objects.get().enabled
    root.post("/lending/nights/delete")
    assert LendingRule.objects.exists()
    root.post("/lending/nights/delete", {"confirmed": "yes"})
    assert not LendingRule.objects.exists()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"from_time": ["20:00", "25:00"]}, "Row 2 needs two days and two times like 20:00."),
        ({"to_time": ["08:00", ""]}, "Row 2 needs two days"),
        ({"to_day": ["0", "0"], "to_time": ["20:00", "8:00"]}, "Row 1 begins and ends at the same time."),
        ({"time_zone": "Nowhere/At all"}, "There is no such time zone."),
        ({"borrower": "default"}, "A pool lends to another pool."),
        ({"name": "Not A Name"}, "invalid-feedback"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_typed_is_lost(
    site: Site, training: Pool, root: Client, typed: dict[str, object], said: str
) -> None:
    page = root.post("/lending/new", {**FORM, **typed}).content.decode()
    assert said in page
    assert 'value="15 min"' in page
    assert page.count('value="20:00"') + page.count('value="25:00"') >= 1
    assert not LendingRule.objects.exists()


def test_a_preset_or_a_row_more_keeps_what_was_typed_and_saves_nothing(
    site: Site, training: Pool, root: Client
) -> None:
    typed = {**FORM, "notice": "nonsense", "rows": "nights"}
    page = root.post("/lending/new", typed).content.decode()
    assert 'value="nonsense"' in page
    assert page.count('name="from_time" value="20') == 6  # two typed, of which one is in the preset too
    part = root.post("/lending/new", typed, headers={"HX-Request": "true"}).content.decode()
    assert part.startswith("<fieldset")
    assert root.post("/lending/new", {**FORM, "rows": "row"}).content.decode().count('name="from_time"') == 4
    assert not LendingRule.objects.exists()


def test_lending_is_read_by_all_and_says_what_to_do_where_there_is_none(
    site: Site, browser_of: Callable[[User], Client], root: Client
) -> None:
    page = browser_of(site.user).get("/lending").content.decode()
    assert "Each pool keeps its cards to itself." in page
    assert "/lending/new" not in page
    assert "/lending/new" in root.get("/lending").content.decode()
    assert "Lending needs two pools" in root.get("/lending/new").content.decode()


def test_a_reserve_is_made_changed_and_deleted(site: Site, root: Client) -> None:
    typed = {"name": "morning", "pool": "default", "slices": "40", "time_zone": "UTC", **ROWS}
    assert root.post("/reserves/new", typed).status_code == 303
    root.post("/reserves/morning/change", {**typed, "slices": "16"})
    reserve = Reserve.objects.get()
    assert (reserve.slices, len(reserve.windows)) == (16, 2)
    assert "morning" in root.get("/lending").content.decode()
    root.post("/reserves/morning/delete", {"confirmed": "yes"})
    assert not Reserve.objects.exists()


def test_lent_cards_are_marked_on_the_map_and_on_the_job(
    site: Site, training: Pool, browser_of: Callable[[User], Client]
) -> None:
    rule = a_rule(site, training)
    job = placed(site, 0, pool="training")
    Allocation.objects.filter(task__attempt__workload=job).update(lent_by=rule)
    client = browser_of(site.user)
    page = client.get("/cluster").content.decode()
    assert 'slice-own is-lent"' in page
    assert "lends" in page
    assert "on cards lent by pool default" in client.get(f"/jobs/{job.uid}").content.decode()
    assert "1 card lent now" in client.get("/lending").content.decode()
    Workload.objects.filter(pk=job.pk).update(state="preempting", stop_reason="reclaimed")
    assert "Its cards are lent and go back to their pool." in client.get(f"/jobs/{job.uid}").content.decode()


def reserve_room(site: Site, job: Workload, hours: int | None) -> None:
    starts = None if hours is None else int((now() + timedelta(hours=hours)).timestamp()) * 1_000_000
    kept = [{"id": job.uid, "nodes": ["n1"], "starts_at_us": starts}]
    QueueOrder.objects.create(pool=site.pool, uids=[job.uid], reservations=kept, decided_at=T0)


def test_kept_room_names_nobody_of_another_group(
    site: Site, make_user: Callable[..., User], browser_of: Callable[[User], Client]
) -> None:
    reserve_room(site, submitted(site, name="precious", gpus=8), 6)
    a_group("audio", mallory=Role.MEMBER)
    own, other = browser_of(site.user), browser_of(User.objects.get(username="mallory"))
    for path in ("/queue", "/pools/default/outlook"):
        assert "precious" in own.get(path).content.decode()
        page = other.get(path).content.decode()
        assert "on n1" in page
        assert "another group" in page
        for hidden in ("precious", "alice", "vision"):
            assert hidden not in page


def test_the_next_day_of_a_pool_counts_own_lent_and_kept_cards(
    site: Site, training: Pool, browser_of: Callable[[User], Client]
) -> None:
    a_rule(site, training)
    own, guest = placed(site, 0, 1, time_limit_s=6 * 3600), placed(site, 2, pool="training")
    Workload.objects.filter(pk__in=[own.pk, guest.pk]).update(started_at=now(), state="running")
    reserve_room(site, submitted(site, gpus=4, time_limit_s=3600), 7)
    answer = browser_of(site.user).get("/pools/default/outlook")
    hours = answer.context["outlook"].hours
    assert [(hour.own, hour.lent, hour.kept) for hour in hours[5:9]] == [(2, 1, 0), (0, 1, 0), (0, 1, 4), (0, 1, 0)]
    assert all(hour.is_lending for hour in hours)
    assert "Pool default in the next 24 hours: 3 of 8 cards in use now, 1 at the end." in answer.content.decode()


def test_an_empty_pool_says_what_to_do(site: Site, training: Pool, root: Client) -> None:
    page = root.get("/pools/training/outlook").content.decode()
    assert "No usable card" in page
    assert "/nodes/join" in page


def test_labels_of_a_node_are_set_and_a_wrong_one_keeps_the_text(site: Site, root: Client) -> None:
    assert root.post("/nodes/n1/labels", {"labels": "rack=7, disk=nvme\nrack=7"}).status_code == 303
    assert "rack=7" in root.get("/nodes").content.decode()
    page = root.post("/nodes/n1/labels", {"labels": "rack=7 wrong"}).content.decode()
    assert "rack=7 wrong" in page
    assert "Give at most 32 labels" in page
    root.post("/nodes/n1/labels", {"labels": ""})
    assert "rack=7" not in root.get("/nodes").content.decode()


def test_a_pool_says_how_it_interrupts(site: Site, root: Client) -> None:
    form = {
        "kinds": ["job"], "slices_per_gpu": "8", "gpu_reserve_mib": "512", "cpu_overcommit_percent": "100",
        "strategy": "pack", "priority_gap": "10", "min_run": "10 min",
    }  # fmt: skip
    assert root.post("/pools/default/change", form).status_code == 303
    site.pool.refresh_from_db()
    assert (site.pool.priority_gap, site.pool.min_run_s) == (10, 600)
    root.post("/pools/default/change", {**form, "priority_gap": "", "min_run": ""})
    site.pool.refresh_from_db()
    assert (site.pool.priority_gap, site.pool.min_run_s) == (None, 0)


@pytest.mark.django_db(transaction=True)
def test_a_job_is_asked_for_with_its_layout_and_labels(site: Site, browser_of: Callable[[User], Client]) -> None:
    a_node("n2", site.pool)
    form = {
        "name": "wide", "image": "shell", "group": "vision", "pool": "default", "command": "", "profile": "",
        "command_mode": "script", "cpu": "1", "memory": "1 GiB", "gpu_mode": "cards", "gpus": "1", "tasks": "2",
        "priority": "50", "max_retries": "0", "layout": "spread",
    }  # fmt: skip
    client = browser_of(site.user)
    answer = client.post("/jobs/answer", form).content.decode()
    assert "on n1, n2" in answer
    refused = client.post("/jobs/answer", {**form, "node_labels": "rack=7"}).content.decode()
    assert "rack=7" in refused
    assert client.post("/jobs/new", {**form, "form_token": "x" * 20}).status_code == 303
    job = Workload.objects.get(name="wide")
    assert (job.spread, job.same_node, job.node_labels) == (True, False, [])
    again = client.get(f"/jobs/new?from={job.uid}").content.decode()
    assert '<option value="spread" selected>' in again
