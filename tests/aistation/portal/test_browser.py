"""The pages in a real browser, with the real server, its socket and its policy."""

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from aistation.core.clock import now
from aistation.tenancy import services as tenancy
from aistation.tenancy.models import User
from aistation.workloads.lifecycle import Reason
from aistation.workloads.logs import Chunk, store_chunks
from aistation.workloads.models import Task, Workload
from aistation.workloads.services import hold, request_stop
from tests.factories.work import placed, submitted, tasks_of
from tests.factories.world import PASSWORD, Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.conftest import AsgiServer

pytestmark = [pytest.mark.chromium, pytest.mark.slow]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--enable-precise-memory-info",
    "--js-flags=--expose-gc",
]


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    """One for all tests here. Playwright keeps an event loop in this thread, in which nothing of ours runs."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - starts slowly

    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def asked() -> list[str]:
    """Every request that left the page."""
    return []


@pytest.fixture
def page(chromium: "Browser", asgi_server: "AsgiServer", site: Site, asked: list[str]) -> "Iterator[Page]":
    """Alice's browser, signed in. A test fails when the page complains."""
    complaints: list[str] = []
    context = chromium.new_context(base_url=asgi_server.url, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    sign_in(page)
    yield page
    context.close()
    assert [text for text in complaints if "401" not in text and "WebSocket" not in text] == []


def sign_in(page: "Page") -> None:
    page.goto("/login")
    page.fill("[name=username]", "alice")
    page.fill("[name=password]", PASSWORD)
    page.click("button.btn-primary")
    page.wait_for_url("**/")


def write(task: Task, data: bytes) -> None:
    """As the agent does: append to the log of a task."""
    task.refresh_from_db()
    pieces = range(0, len(data), 1 << 18)
    chunks = [
        Chunk(task.uid, task.nonce, "stdout", task.log_stored + start, data[start : start + (1 << 18)])
        for start in pieces
    ]
    store_chunks(node_id=task.node_id, chunks=chunks, now=now())


def wait_until_live(page: "Page") -> None:
    """Until the socket listens: a change before that would be seen only at the next poll."""
    page.wait_for_function("() => document.body.dataset.live === 'yes'")


def test_a_job_is_submitted_and_its_row_changes_by_itself(page: "Page", site: Site) -> None:
    page.goto("/jobs/new")
    page.fill("[name=name]", "walked")
    page.fill("[name=command]", "echo hello")
    page.wait_for_selector(".answer-yes")
    page.click("text=Submit job")
    page.wait_for_url("**/jobs/job-*")
    job = Workload.objects.get(name="walked")
    assert page.inner_text("[data-state]") == "queued"
    page.goto("/jobs")
    wait_until_live(page)
    page.evaluate("window.untouched = true")
    request_stop(workload_id=job.pk, reason=Reason.USER_STOPPED, now=now(), actor=site.actor)
    page.wait_for_selector(f"tr[data-uid={job.uid}] [data-state=cancelled]")
    assert page.evaluate("window.untouched")


def test_a_dialog_asks_before_an_end(page: "Page", site: Site) -> None:
    job = submitted(site, name="precious")
    page.goto(f"/jobs/{job.uid}")
    page.click("text=Cancel job")
    assert page.inner_text("dialog p") == "Cancel precious? What it has not saved is lost."
    page.click("dialog >> text=Keep")
    job.refresh_from_db()
    assert job.state == "queued"
    wait_until_live(page)
    page.click("text=Cancel job")
    hold(workload_id=job.pk, now=now(), actor=site.actor)
    page.wait_for_selector("#job [data-state=held]")  # the part with the form has changed under the dialog
    page.click("dialog >> [data-ask-yes]")
    page.wait_for_selector("#job [data-state=cancelled]")


def test_who_works_with_the_keyboard_keeps_the_place_when_a_row_changes(page: "Page", site: Site) -> None:
    job = submitted(site)
    page.goto("/jobs")
    wait_until_live(page)
    page.focus(f"#to-{job.uid}")
    hold(workload_id=job.pk, now=now(), actor=site.actor)
    page.wait_for_selector(f"tr[data-uid={job.uid}] [data-state=held]")
    assert page.evaluate("document.activeElement.id") == f"to-{job.uid}"


def test_without_scripts_the_same_forms_work(chromium: "Browser", asgi_server: "AsgiServer", site: Site) -> None:
    context = chromium.new_context(base_url=asgi_server.url, java_script_enabled=False)
    page = context.new_page()
    sign_in(page)
    page.goto("/jobs/new")
    page.fill("[name=name]", "plain")
    page.fill("[name=env_name]", "A")
    page.fill("[name=env_value]", "1")
    page.select_option("[name=command_mode]", "script")
    page.click("text=Submit job")
    page.wait_for_url("**/jobs/job-*")
    assert Workload.objects.get(name="plain").env == {"A": "1"}
    page.click("text=Cancel job")
    page.click("main >> button:has-text('Cancel job')")
    page.wait_for_selector("[data-state=cancelled]")
    context.close()


def test_a_session_that_is_ended_elsewhere_leaves_the_page(
    page: "Page", site: Site, make_user: Callable[..., User]
) -> None:
    page.goto("/queue")
    wait_until_live(page)
    make_user("root", admin=True)
    tenancy.change_user(user_id=site.user.pk, password="another horse battery", now=now(), actor=site.actor)
    page.wait_for_url("**/login?next=%2Fqueue")


def test_while_the_socket_is_away_the_page_asks_by_itself(page: "Page", site: Site) -> None:
    page.add_init_script(
        "window.WebSocket = class extends EventTarget { constructor() { super(); "
        "setTimeout(() => this.dispatchEvent(new CloseEvent('close', { code: 1006 })), 10); } }"
    )
    page.goto("/jobs")
    page.wait_for_selector("[data-live-note]:not([hidden])")
    job = submitted(site)
    page.wait_for_selector(f"tr[data-uid={job.uid}]")


def test_the_menu_opens_on_a_phone_and_nothing_is_wider_than_the_screen(page: "Page", site: Site) -> None:
    job = placed(site, name="a-name-that-is-far-too-long-for-any-telephone-" + "x" * 60, env={"A" * 200: "1"})
    page.set_viewport_size({"width": 375, "height": 800})
    for path in (
        "/",
        "/jobs?who=all",
        f"/jobs/{job.uid}",
        "/jobs/new",
        "/environments",
        "/environments/new",
        "/queue",
        "/profile",
    ):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    page.click("[data-nav-toggle]")
    page.click("#menu >> text=Queue")
    page.wait_for_url("**/queue")


# --- the log ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def logging_job(page: "Page", site: Site) -> tuple[Workload, Task]:
    job = placed(site, name="talker")
    return job, tasks_of(job)[0]


def lines(page: "Page") -> list[str]:
    found: list[str] = page.eval_on_selector_all("[data-log-lines] > div", "nodes => nodes.map(n => n.textContent)")
    return found


def wait_for_line(page: "Page", text: str) -> None:
    page.wait_for_function(
        "text => [...document.querySelectorAll('[data-log-lines] > div')].some(n => n.textContent === text)", arg=text
    )


def test_the_log_grows_on_the_page(page: "Page", logging_job: tuple[Workload, Task]) -> None:
    job, task = logging_job
    write(task, b"first\n")
    page.goto(f"/jobs/{job.uid}")
    wait_for_line(page, "first")
    wait_until_live(page)
    write(task, b"sec")
    wait_for_line(page, "sec")
    write(task, b"ond\nthird\n")
    wait_for_line(page, "third")
    assert lines(page) == ["first", "second", "third", ""]


def test_b039_a_progress_bar_stays_in_its_line_and_memory_stays_bounded(
    page: "Page", logging_job: tuple[Workload, Task]
) -> None:
    job, task = logging_job
    page.goto(f"/jobs/{job.uid}")
    wait_until_live(page)
    step = 0

    def progress(count: int) -> bytes:
        nonlocal step
        pieces = []
        for _ in range(count):
            step += 1
            pieces.append(f"\r\x1b[32m{step:7d}\x1b[0m/1000000 [{'#' * (step % 40):40s}]")
        return "".join(pieces).encode()

    write(task, b"epoch 1\n" + progress(2000))
    page.wait_for_function(
        "n => document.querySelector('[data-log-lines]').textContent.includes(n)", arg=f"{step}/1000000"
    )
    heap = "() => { gc(); return performance.memory.usedJSHeapSize; }"
    before = page.evaluate(heap)
    for _ in range(10):
        write(task, progress(2000))
        page.wait_for_function(
            "n => document.querySelector('[data-log-lines]').textContent.includes(n)", arg=f"{step}/1000000"
        )
    assert len(lines(page)) == 2
    assert page.evaluate("document.querySelectorAll('[data-log-lines] *').length") < 20
    assert page.evaluate("document.querySelector('.log-fg2').textContent").strip() == str(step)
    assert page.evaluate(heap) < before + 4_000_000


def test_b039_two_bars_that_move_the_cursor_up(page: "Page", logging_job: tuple[Workload, Task]) -> None:
    job, task = logging_job
    write(task, b"outer 1\ninner 1\x1b[A\router 2\n\rinner 2\x1b[K\nend\n")
    page.goto(f"/jobs/{job.uid}")
    wait_for_line(page, "end")
    assert lines(page) == ["outer 2", "inner 2", "end", ""]


def test_many_lines_are_bounded_and_the_end_is_shown(page: "Page", logging_job: tuple[Workload, Task]) -> None:
    job, task = logging_job
    write(task, b"".join(b"line %d\n" % number for number in range(300_000)))
    page.goto(f"/jobs/{job.uid}")
    wait_for_line(page, "line 299999")
    assert len(lines(page)) <= 3001
    assert "Earlier output is left out" in page.inner_text("[data-log-note]")


def test_a_line_of_a_mebibyte_does_not_stop_the_page(page: "Page", logging_job: tuple[Workload, Task]) -> None:
    job, task = logging_job
    write(task, b"x" * (1 << 20) + b"\nafter\n")
    page.goto(f"/jobs/{job.uid}")
    wait_for_line(page, "after")
    longest = max(lines(page), key=len)
    assert len(longest) < 20_000


def test_b043_what_a_program_prints_is_text_and_nothing_leaves_the_page(
    page: "Page", logging_job: tuple[Workload, Task], asked: list[str], asgi_server: "AsgiServer"
) -> None:
    job, task = logging_job
    evil = [
        "<img src=http://evil.example/x onerror=alert(1)>",
        "<svg/onload=alert(1)>",
        "</pre><script>alert(1)</script>",
        "&lt;b&gt;",
    ]
    write(task, "\n".join(evil).encode() + b"\n")
    write(task, b"\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\\n")
    write(task, "a\u202egnp.exe\u2066b\n".encode())
    write(task, b"bad \xff\xfe utf \x00 nul\n\x1b[999999m\x1b[38;5;300mcolour\x1b[m\n")
    write(task, b"\x1b]0;" + b"t" * 100 + b"\nend\n")
    page.on("dialog", lambda dialog: pytest.fail("a dialog opened"))
    page.goto(f"/jobs/{job.uid}")
    wait_for_line(page, "link")
    page.wait_for_function("document.querySelector('[data-log-lines]').textContent.includes('colour')")
    shown = lines(page)
    assert shown[:5] == [*evil, "link"]
    assert shown[5] == "a\\u202egnp.exe\\u2066b"
    assert shown[6] == "bad \ufffd\ufffd utf \u2400 nul"
    inside = page.evaluate("[...document.querySelectorAll('[data-log-lines] *')].map(n => n.tagName)")
    assert set(inside) <= {"DIV", "SPAN"}
    assert all(url.startswith((asgi_server.url, "data:")) for url in asked)


def test_the_download_is_exact(page: "Page", logging_job: tuple[Workload, Task]) -> None:
    job, task = logging_job
    data = bytes(range(256)) * 40 + b"\r\n\xff"
    write(task, data)
    page.goto(f"/jobs/{job.uid}")
    with page.expect_download() as started:
        page.click("text=Download")
    assert started.value.path().read_bytes() == data


def test_the_page_is_light(page: "Page", site: Site) -> None:
    """First load: 500 kB at most, and less than that."""
    sizes: list[int] = []
    page.on("response", lambda answer: sizes.append(_length(answer)))
    page.goto("/jobs/new")
    page.wait_for_load_state("networkidle")
    assert 0 < sum(sizes) < 250_000


def _length(answer: Any) -> int:
    return int(answer.headers.get("content-length") or 0)
