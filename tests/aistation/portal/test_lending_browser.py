"""Lending and what-if in a real browser."""

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from aistation.fleet.models import LendingRule
from aistation.tenancy.models import User
from tests.factories.world import PASSWORD, T0, Site, a_node, a_pool

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.conftest import AsgiServer

pytestmark = [pytest.mark.chromium, pytest.mark.slow]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    """Playwright keeps an event loop in this thread, in which nothing of ours runs."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - starts slowly

    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(
    chromium: "Browser", asgi_server: "AsgiServer", site: Site, make_user: Callable[..., User]
) -> "Iterator[Page]":
    """The browser of a platform admin whose clock is Shanghai's. A test fails when the page complains."""
    make_user("root", admin=True)
    training = a_pool("training", slices=0, kinds=("job",))
    a_node("t1", training, cards=2)
    LendingRule.objects.create(
        name="nights", lender=site.pool, borrower=training, windows=[[1200, 1920]], time_zone="Asia/Shanghai",
        created_at=T0,
    )  # fmt: skip
    complaints: list[str] = []
    context = chromium.new_context(base_url=asgi_server.url, timezone_id="Asia/Shanghai")
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto("/login")
    page.fill("[name=username]", "root")
    page.fill("[name=password]", PASSWORD)
    page.click("button.btn-primary")
    page.wait_for_url("**/")
    yield page
    context.close()
    assert [text for text in complaints if "WebSocket" not in text] == []


def test_rows_come_and_go_without_losing_what_was_typed(page: "Page") -> None:
    LendingRule.objects.all().delete()
    page.goto("/lending/new")
    assert page.input_value("[name=time_zone]") == "Asia/Shanghai"
    page.fill("[name=name]", "typed")
    page.fill("[name=from_time]", "18:00")
    page.fill("[name=to_time]", "19:00")
    page.click("text=Add row")
    assert page.locator("[name=from_time]").count() == 2
    page.click("text=Nights (20:00")
    page.wait_for_function("() => document.querySelectorAll('[name=from_time]').length === 6")
    assert page.input_value("[name=from_time] >> nth=0") == "18:00"
    assert page.input_value("[name=name]") == "typed"
    page.click("[data-rows-remove] >> nth=0")
    page.select_option("[name=borrower]", "training")
    page.click("text=Make the rule")
    page.wait_for_url("**/lending")
    assert LendingRule.objects.get().windows[0] == [1200, 1920]
    assert "Mon to Thu 20:00 – 08:00 the next day" in page.inner_text("[data-rule=typed]")


def test_nothing_is_wider_than_a_phone(page: "Page") -> None:
    page.set_viewport_size({"width": 375, "height": 800})
    for path in (
        "/lending", "/lending/new", "/lending/nights/change", "/reserves/new", "/pools/default/outlook",
        "/pools/default/change", "/nodes/n1/labels", "/quotas/vision", "/cluster", "/queue", "/jobs/new", "/whatif",
    ):  # fmt: skip
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_a_week_is_simulated_while_the_page_says_how_far_it_is(page: "Page") -> None:
    page.goto("/whatif")
    page.click("text=Simulate a week")
    page.wait_for_selector("#run table.result-table", timeout=60_000)
    assert page.locator("#run svg").count() == 1
