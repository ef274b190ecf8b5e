"""JupyterLab as a newcomer meets it: quickstart, a real browser, the gateway, a cell over its WebSocket."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests

from tests.aistation.embedded.test_quickstart import Platform, platform
from tests.aistation.embedded.waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, WebSocket

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(900)]
INSTALL_TIMEOUT_S = 600  # the recipe's packages, the first time
PASSWORD = "correct horse battery"


@pytest.fixture
def running() -> "Iterator[Platform]":
    with tempfile.TemporaryDirectory(prefix="aistation-jupyter-") as name:
        Path(name).chmod(0o711)
        with platform(Path(name) / "data") as started:
            yield started


@pytest.fixture
def chromium() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - starts slowly

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


def test_a_cell_runs_for_the_owner_and_nobody_else_gets_in(running: Platform, chromium: "Browser") -> None:
    environment = _post(running, "/environments", name="notebook", image="jupyter", resources=_SMALL)
    _post(running, "/users", username="bob", password=PASSWORD)
    _post(running, "/groups/default/members", username="bob", role="group_admin")
    path = f"/api/v1/environments/{environment['id']}"
    eventually(lambda: running.get(path).json()["state"] == "running", within_s=INSTALL_TIMEOUT_S)

    owner = _signed_in(chromium, running, running.credentials["username"], running.credentials["password"])
    sockets: list[WebSocket] = []
    owner.on("websocket", lambda opened: sockets.append(opened))  # playwright marks its handlers
    _open_lab(owner, environment["url"])
    assert _run_cell(owner, "print(6 * 7)") == "42"
    assert "aistation_pass" not in owner.evaluate("document.cookie")
    assert any("/channels" in socket.url for socket in sockets)

    other = _signed_in(chromium, running, "bob", PASSWORD)
    answer = other.goto(environment["url"])
    assert answer is not None
    assert answer.status == 404

    _sign_out(owner.context.new_page(), running)
    begun = time.monotonic()
    channel = next(socket for socket in sockets if "/channels" in socket.url)
    if not channel.is_closed():
        channel.wait_for_event("close", timeout=10_000)
    assert time.monotonic() - begun < 5, "S20: what is open ends within five seconds"
    again = owner.goto(environment["url"])
    assert again is not None
    assert "/login" in owner.url


_SMALL = {"cpu_milli": 1000, "memory_mib": 2048, "gpus": 0}


def _post(running: Platform, path: str, **body: object) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {running.credentials['token']}"}
    answer = requests.post(f"{running.credentials['url']}/api/v1{path}", json=body, headers=headers, timeout=10)
    assert answer.status_code in (200, 201), answer.text
    made: dict[str, str] = answer.json()
    return made


def _signed_in(chromium: "Browser", running: Platform, username: str, password: str) -> "Page":
    page = chromium.new_context(base_url=running.credentials["url"]).new_page()
    page.set_default_timeout(90_000)
    page.goto("/login")
    page.fill("[name=username]", username)
    page.fill("[name=password]", password)
    page.click("button.btn-primary")
    page.wait_for_url("**/")
    return page


def _sign_out(page: "Page", running: Platform) -> None:
    page.goto(running.credentials["url"])
    page.evaluate(
        """() => fetch("/logout", {method: "POST", redirect: "manual", headers: {
            "X-CSRFToken": document.cookie.match(/csrf\\w*=([^;]+)/)[1]}})"""
    )
    page.goto(running.credentials["url"])
    assert "/login" in page.url


def _open_lab(page: "Page", url: str) -> None:
    """Until the server listens the gateway's page tries again by itself."""
    page.goto(f"{url}lab?reset")
    page.click(".jp-LauncherCard[data-category=Notebook]")
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]")


def _run_cell(page: "Page", code: str) -> str:
    """JupyterLab drops a cell that is run before its kernel is connected, so it is run until it answers."""
    cell, output = page.locator(".jp-Notebook .cm-content").first, page.locator(".jp-OutputArea-output").first
    cell.click()
    page.keyboard.type(code)

    def answers() -> bool:
        cell.click()
        page.keyboard.press("Control+Enter")
        page.wait_for_timeout(1000)
        return output.is_visible()

    eventually(answers, within_s=60)
    return output.inner_text().strip()
