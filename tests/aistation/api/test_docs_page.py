"""The browsable page in a real browser, under the portal's Content Security Policy."""

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import AsgiServer


@pytest.mark.chromium
@pytest.mark.slow
def test_the_page_shows_the_operations_and_breaks_no_policy(asgi_server: "AsgiServer") -> None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - starts slowly

    from tests.factories.world import PASSWORD, a_site  # noqa: PLC0415 - the settings are not loaded yet up there

    a_site()
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{asgi_server.url}/api/docs/")
        page.fill("input[name=username]", "alice")
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]")
        page.wait_for_selector("text=Submit a job", timeout=30_000)
        browser.close()
    assert complaints == []
