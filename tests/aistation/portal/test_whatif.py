"""The page that simulates a week of the present fleet."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
from django.core.cache import cache
from django.test import Client

from aistation.fleet.models import LendingRule
from aistation.portal import whatif_runs
from aistation.portal.charts import Series, levels, stacked
from aistation.portal.whatif_runs import latest_run, start_run
from aistation.quotas.services import QuotaChange, set_quotas
from aistation.scheduling.whatif import Change, Load, present_fleet, scenario_of
from aistation.tenancy.models import User
from aistation.tenancy.selectors import actor_of
from scheduler.simulator.scenario import parse_scenario
from tests.factories.world import T0, Site, a_node, a_pool

pytestmark = pytest.mark.django_db
FORM = {
    "job_pool": "training", "job_hours": "12", "environment_pool": "default", "environments": "8", "slices": "1",
    "lender": "default", "borrower": "training", "take_back": "checkpoint", "keep_free_slices": "0",
}  # fmt: skip


@pytest.fixture
def admin(site: Site, make_user: Callable[..., User]) -> Iterator[User]:
    training = a_pool("training", slices=0, kinds=("job",))
    a_node("t1", training, cards=2)
    LendingRule.objects.create(
        name="night", lender=site.pool, borrower=training, windows=[[1200, 1920]], time_zone="Asia/Tokyo",
        created_at=T0,
    )  # fmt: skip
    user = make_user("root", admin=True)
    yield user
    cache.delete_many([f"whatif.{user.pk}", f"whatif.{user.pk}.alive"])


def wait_for_end(user_id: int) -> whatif_runs.Run:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        run = latest_run(user_id)
        assert run is not None
        if not run.is_running:
            return run
        time.sleep(0.1)
    raise AssertionError("the simulation has no end")


def test_the_present_fleet_becomes_a_scenario(site: Site, admin: User) -> None:
    actor = actor_of(admin.pk)
    assert actor is not None
    limits = QuotaChange(site.pool, {"gpu_milli": 4000}, {"gpu_milli": 1000}, {}, weight=3)
    set_quotas(group=site.group, user=None, changes=[limits], now=T0, actor=actor)
    load = Load(job_pool="training", environment_pool="default", environments=5, slices=2)
    change = Change("default", "training", [[0, 480]], "checkpoint")
    fleet = present_fleet(actor)
    as_it_is = parse_scenario(scenario_of(fleet, load, None, T0))
    assert as_it_is.time_zone == "Asia/Tokyo"
    assert [(pool.name, [(row.count, row.gpus) for row in pool.nodes]) for pool in as_it_is.pools] == [
        ("default", [(1, 8)]), ("training", [(1, 2)]),
    ]  # fmt: skip
    (group,) = as_it_is.groups
    assert [(one.gpu_milli, one.guaranteed_milli, one.weight) for one in group.quotas] == [(4000, 1000, 3)]
    assert as_it_is.lending[0].windows[0].start == 1200
    changed = parse_scenario(scenario_of(fleet, load, change, T0))
    assert [(rule.name, rule.take_back.value, rule.windows[0].end) for rule in changed.lending] == [
        ("what-if", "checkpoint", 480)
    ]


@pytest.mark.slow
def test_a_week_is_simulated_as_it_is_and_with_the_change(admin: User, browser_of: Callable[[User], Client]) -> None:
    browser = browser_of(admin)
    assert "No simulation yet" in browser.get("/whatif").content.decode()
    started = time.monotonic()
    assert browser.post("/whatif", FORM).status_code == 303
    assert time.monotonic() - started < 5
    run = latest_run(admin.pk)
    assert run is not None
    if run.is_running:
        assert "A simulation of yours runs" in browser.post("/whatif", FORM).content.decode()
        assert "% done" in browser.get("/whatif", headers={"HX-Request": "true"}).content.decode()
    run = wait_for_end(admin.pk)
    assert run.error == ""
    assert run.results is not None
    before, after = (run.results[name]["twelve_hour_equivalents_per_week"] for name in ("now", "changed"))
    assert after > before > 27  # two cards alone do 28 a week
    page = browser.get("/whatif").content.decode()
    assert "with the change" in page
    assert "<svg" in page
    assert "As a table" in page
    assert 'name="environments" value="8"' in page


def test_a_form_without_any_load_is_refused_and_keeps_its_rows(
    admin: User, browser_of: Callable[[User], Client]
) -> None:
    rows = {"from_day": ["0"], "from_time": ["18:00"], "to_day": ["1"], "to_time": ["08:00"]}
    browser = browser_of(admin)
    page = browser.post("/whatif", {**FORM, **rows, "job_pool": "", "environments": "0"}).content.decode()
    assert "Choose some load." in page
    assert 'value="18:00"' in page
    part = browser.post("/whatif", {**FORM, **rows, "rows": "nights"}, headers={"HX-Request": "true"}).content.decode()
    assert part.count('name="from_time"') == 7  # with the empty one that scripts copy
    assert latest_run(admin.pk) is None


def test_a_run_whose_server_is_gone_is_told_so(admin: User, browser_of: Callable[[User], Client]) -> None:
    cache.set(f"whatif.{admin.pk}", whatif_runs.Run(T0, {}, is_running=True), 60)
    assert "The server was started anew meanwhile." in browser_of(admin).get("/whatif").content.decode()


@pytest.mark.slow
def test_what_cannot_be_simulated_ends_with_its_reason(admin: User) -> None:
    assert start_run(admin.pk, {"now": {"name": "x"}}, {}, datetime.fromisoformat("2026-01-05T00:00+00:00"))
    assert "pools" in wait_for_end(admin.pk).error


def test_areas_stand_on_each_other_and_end_at_the_top() -> None:
    low, high = stacked([Series("own", "", [1, 1, 2, 0]), Series("lent", "", [1, 1, 9, 0])], 4)
    assert low.path == "M0 750 L500 750 L500 500 L750 500 L750 1000 L1000 1000 " + ("L1000 1000 L0 1000 Z")
    assert high.path.startswith("M0 500 L500 500 L500 0 L750 0 L750 1000 L1000 1000 L1000 1000")
    assert [level.text for level in levels(8)] == ["0", "2", "4", "6", "8"]
    assert [level.text for level in levels(100, " %")] == ["0 %", "50 %", "100 %"]
