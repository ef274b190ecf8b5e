import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from aistation.tenancy.models import User
from aistation.tenancy.policy import Role
from aistation.workloads.models import Workload
from tests.factories.work import placed, submitted
from tests.factories.world import Site, a_group, a_submission

pytestmark = pytest.mark.django_db
FORM = {
    "name": "resnet50",
    "image": "shell",
    "group": "vision",
    "pool": "default",
    "profile": "",
    "command": "python train.py\n",
    "command_mode": "script",
    "cpu": "2",
    "memory": "4 GiB",
    "gpu_mode": "cards",
    "gpus": "1",
    "tasks": "1",
    "priority": "50",
    "preemptible": "on",
    "max_retries": "0",
}


@pytest.fixture
def client(alice: User, browser_of: Callable[[User], Client]) -> Client:
    return browser_of(alice)


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


def test_a_submitted_job_is_what_the_form_said(client: Client) -> None:
    more = {
        "time_limit": "1 h 30 min",
        "env_name": ["EPOCHS", "", "TOKEN"],
        "env_value": ["90", "", "s3cret"],
        "folder_name": ["home"],
        "folder_path": ["/workspace"],
        "folder_mode": ["ro"],
    }
    answer = client.post("/jobs/new", {**FORM, **more})
    job = Workload.objects.get()
    assert (answer.status_code, answer["Location"]) == (303, f"/jobs/{job.uid}")
    assert job.command == ["sh", "-c", "python train.py\n"]
    assert (job.cpu_milli, job.memory_mib, job.gpus, job.gpu_slices) == (2000, 4096, 1, None)
    assert job.time_limit_s == 5400
    assert job.env == {"EPOCHS": "90", "TOKEN": "s3cret"}
    assert [(mount["name"], mount["path"], mount["mode"]) for mount in job.mounts] == [("home", "/workspace", "ro")]
    assert job.preemptible


def test_b063_values_of_variables_are_never_shown_again(client: Client) -> None:
    client.post("/jobs/new", {**FORM, "env_name": ["TOKEN"], "env_value": ["canary-4711"]})
    uid = Workload.objects.get().uid
    for path in (f"/jobs/{uid}", f"/jobs/new?from={uid}", "/jobs", "/", "/queue"):
        assert "canary-4711" not in text_of(client.get(path))
    assert "TOKEN" in text_of(client.get(f"/jobs/{uid}"))


def test_arguments_are_split_like_a_shell_splits_them(client: Client) -> None:
    client.post("/jobs/new", {**FORM, "command": "python 'my train.py' --lr 0.1", "command_mode": "arguments"})
    assert Workload.objects.get().command == ["python", "my train.py", "--lr", "0.1"]


def test_what_was_typed_is_still_there_beside_its_error(client: Client) -> None:
    wrong = {"cpu": "many", "time_limit": "soon", "env_name": ["A"], "env_value": ["typed"], "name": "my job"}
    page = text_of(client.post("/jobs/new", {**FORM, **wrong}))
    assert not Workload.objects.exists()
    for piece in ('value="many"', 'value="soon"', 'value="typed"', 'value="my job"'):
        assert piece in page
    assert 'id="id_cpu_error"' in page
    assert 'id="id_time_limit_error"' in page


def test_a_refusal_of_the_service_stands_by_its_field(client: Client) -> None:
    page = text_of(client.post("/jobs/new", {**FORM, "gpus": "9"}))
    assert not Workload.objects.exists()
    assert 'id="id_gpus_error"' in page
    page = text_of(client.post("/jobs/new", {**FORM, "env_name": ["LD_PRELOAD"], "env_value": ["x"]}))
    assert "LD_PRELOAD is set by the platform." in page


def test_submitting_again_starts_from_the_old_job(client: Client, site: Site) -> None:
    old = submitted(site, name="first", command=["sh", "-c", "echo 1"], gpus=1, gpu_slices=2, env={"A": "1"})
    page = text_of(client.get(f"/jobs/new?from={old.uid}"))
    assert 'value="first"' in page
    assert "echo 1" in page
    assert 'name="env_name" value="A"' in page
    assert re.search(r'<option value="slices"\s+selected', page)
    assert 'name="gpu_slices" value="2"' in page


def test_b076_a_form_that_is_sent_twice_makes_one_job(client: Client) -> None:
    found = re.search(r'name="form_token" value="([^"]+)"', text_of(client.get("/jobs/new")))
    assert found
    sent = {**FORM, "form_token": found[1]}
    first, second = client.post("/jobs/new", sent), client.post("/jobs/new", sent)
    assert first["Location"] == second["Location"]
    assert Workload.objects.count() == 1


def test_b076_a_form_that_failed_may_be_sent_again(client: Client) -> None:
    client.post("/jobs/new", {**FORM, "gpus": "9", "form_token": "abc"})
    assert client.post("/jobs/new", {**FORM, "form_token": "abc"}).status_code == 303
    assert Workload.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_b076_a_double_click_makes_one_job(site: Site, browser_of: Callable[[User], Client]) -> None:
    sent = {**FORM, "form_token": "clicked"}
    browsers = [browser_of(site.user) for _ in range(4)]

    def click(browser: Client) -> str:
        try:
            return str(browser.post("/jobs/new", sent)["Location"])
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        places = set(pool.map(click, browsers))
    assert len(places) == 1
    assert Workload.objects.count() == 1


@pytest.mark.django_db(transaction=True)  # the dry run reads its own snapshot
def test_the_answer_says_when_it_would_start(client: Client, site: Site) -> None:
    assert "Starts now" in text_of(client.post("/jobs/answer", FORM))
    placed(site, *range(8))
    page = text_of(client.post("/jobs/answer", FORM))
    assert "number 1 in the queue" in page
    assert "Needs 1 card" in page
    assert "cannot be submitted" in text_of(client.post("/jobs/answer", {**FORM, "gpus": "9"}))
    assert "Fill in the form" in text_of(client.post("/jobs/answer", {**FORM, "cpu": ""}))
    assert Workload.objects.count() == 1


def test_page_and_partial_show_the_same(client: Client, site: Site) -> None:
    job = submitted(site)
    page, part = client.get("/jobs"), client.get("/jobs", headers={"HX-Request": "true"})
    assert job.uid in text_of(page)
    assert text_of(part).strip().startswith('<div id="jobs"')
    assert without_tokens(part).strip() in without_tokens(page)
    assert "HX-Request" in page["Vary"]


def without_tokens(answer: Any) -> str:
    """CSRF tokens are masked anew each time."""
    return re.sub(r'(name="csrfmiddlewaretoken" value=|"X-CSRFToken": )"[^"]*"', "", text_of(answer))


def test_a_session_that_ended_makes_htmx_reload_the_page(site: Site) -> None:
    answer = Client().get("/jobs", headers={"HX-Request": "true"})
    assert (answer.status_code, answer["HX-Refresh"]) == (401, "true")


def test_cancel_asks_first_and_then_cancels(client: Client, site: Site) -> None:
    job = submitted(site, name="precious")
    asked = client.post(f"/jobs/{job.uid}/cancel")
    assert "Cancel precious?" in text_of(asked)
    job.refresh_from_db()
    assert job.state == "queued"
    assert client.post(f"/jobs/{job.uid}/cancel", {"confirmed": "yes"})["Location"] == f"/jobs/{job.uid}"
    job.refresh_from_db()
    assert job.state == "cancelled"


def test_hold_and_release(client: Client, site: Site) -> None:
    job = submitted(site)
    client.post(f"/jobs/{job.uid}/hold")
    job.refresh_from_db()
    assert job.state == "held"
    assert "Held; it waits" in text_of(client.get(f"/jobs/{job.uid}"))
    client.post(f"/jobs/{job.uid}/release")
    job.refresh_from_db()
    assert job.state == "queued"


def test_holding_a_job_that_runs_is_refused_in_words(client: Client, site: Site) -> None:
    job = placed(site)
    answer = client.post(f"/jobs/{job.uid}/hold", follow=True)
    assert "Only a queued job can be held." in text_of(answer)


@pytest.mark.parametrize("action", ["", "/cancel", "/hold", "/release"])
def test_b062_another_groups_job_is_as_if_it_did_not_exist(
    site: Site, browser_of: Callable[[User], Client], action: str
) -> None:
    job = submitted(site)
    a_group("audio", mallory=Role.GROUP_ADMIN)
    browser = browser_of(User.objects.get(username="mallory"))
    ask = browser.post if action else browser.get
    pages = [ask(f"/jobs/{uid}{action}", {"confirmed": "yes"}) for uid in (job.uid, "job-aaaaaaaaaaaa")]
    assert [page.status_code for page in pages] == [404, 404]
    assert without_tokens(pages[0]) == without_tokens(pages[1])
    job.refresh_from_db()
    assert job.state == "queued"
    assert browser.get(f"/jobs/new?from={job.uid}").status_code == 404
    assert job.uid not in text_of(browser.get("/jobs?who=all"))


def test_a_viewer_sees_the_job_without_its_log_and_cannot_cancel(
    site: Site, browser_of: Callable[[User], Client], make_user: Callable[..., User]
) -> None:
    job = submitted(site)
    vic = make_user("vic")
    a_group_member(site, vic, Role.VIEWER)
    browser = browser_of(vic)
    page = text_of(browser.get(f"/jobs/{job.uid}"))
    assert "data-log" not in page
    assert "/cancel" not in page
    assert browser.post(f"/jobs/{job.uid}/cancel", {"confirmed": "yes"}).status_code == 403


def a_group_member(site: Site, user: User, role: Role) -> None:
    from aistation.core.clock import now  # noqa: PLC0415 - only this test
    from aistation.tenancy.services import set_member  # noqa: PLC0415

    set_member(group=site.group, username=user.username, role=role, now=now(), actor=None)


EVIL = [
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "</pre><script>alert(1)</script>",
    "\"'><a href=javascript:alert(1)>x</a>",
    "{{ 7|add:7 }}{% csrf_token %}",
]


@pytest.mark.parametrize("evil", EVIL)
def test_b043_what_people_and_programs_write_is_inert(client: Client, site: Site, evil: str) -> None:
    job = submitted(site, name=evil, command=["sh", "-c", evil], env={"A": evil}, gpu_model="V100")
    Workload.objects.filter(pk=job.pk).update(
        message=evil,
        state="failed",
        reason="exit_nonzero",
        gpu_model=evil,
        pending_reasons=[{"code": evil, "message": evil, "numbers": {}}],
    )
    waits = submitted(site, name=evil)
    Workload.objects.filter(pk=waits.pk).update(
        pending_reasons=[{"code": "pool_full", "message": evil, "numbers": {"quantity": evil, "needed": "x"}}]
    )
    pages = (f"/jobs/{job.uid}", f"/jobs/{waits.uid}", f"/jobs/new?from={job.uid}", "/jobs", "/", "/queue")
    for path in (*pages, f"/jobs?q={evil}"):
        answer = client.get(path)
        assert answer.status_code == 200
        page = text_of(answer)
        for raw in ("<img src=x", "<svg onload", "<script>alert", "<a href=javascript", "</pre><script"):
            assert raw not in page, path
        assert "script-src" not in answer["Content-Security-Policy"]
        assert "default-src 'self'" in answer["Content-Security-Policy"]
    page = text_of(client.post("/jobs/new", {**FORM, "name": evil, "command": evil, "cpu": evil}))
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_no_page_has_inline_script(client: Client, site: Site) -> None:
    job = submitted(site)
    for path in ("/", "/jobs", "/jobs/new", f"/jobs/{job.uid}", "/environments", "/environments/new", "/queue"):
        page = text_of(client.get(path))
        assert not re.search(r"<script(?![^>]*\ssrc=)", page), path
        assert not re.search(r"<[^>]+\son[a-z]+=", page), path


def test_filters_and_search(client: Client, site: Site) -> None:
    first, second = submitted(site, name="alpha"), submitted(site, name="beta")
    Workload.objects.filter(pk=second.pk).update(state="held")
    assert names(client.get("/jobs?state=held")) == [second.uid]
    assert names(client.get("/jobs?state=waiting")) == [second.uid, first.uid]
    assert names(client.get("/jobs?q=ALP")) == [first.uid]
    assert names(client.get(f"/jobs?q={first.uid}")) == [first.uid]
    assert names(client.get("/jobs?state=nonsense")) == [second.uid, first.uid]
    assert names(client.get("/jobs?group=audio")) == []
    assert "No job matches these filters." in text_of(client.get("/jobs?q=zzz"))


def copies_of(job: Workload, count: int) -> list[Workload]:
    """``count`` jobs in all, the given one among them: rows alone, without what a submit does around them."""
    rows = Workload.objects.filter(pk=job.pk).values().get()
    fresh = [Workload(**{**rows, "id": None, "uid": f"job-copy{index:08d}"}) for index in range(1, count)]
    return [job, *Workload.objects.bulk_create(fresh)]


def names(answer: Any) -> list[str]:
    return re.findall(r'<tr data-uid="([^"]+)"', text_of(answer))


def test_pages_go_on_where_the_last_one_ended(client: Client, site: Site) -> None:
    jobs = copies_of(submitted(site), 53)
    first = client.get("/jobs")
    older = re.search(r'href="(\?before=[^"]+)"', text_of(first))
    assert older
    fresh = submitted(site)
    second = client.get("/jobs" + older[1])
    assert names(first) + names(second) == [job.uid for job in reversed(jobs)]
    assert fresh.uid not in names(second)


@pytest.mark.parametrize("path", ["/jobs?who=all", "/", "/queue"])
def test_the_number_of_queries_does_not_grow_with_the_rows(
    client: Client, site: Site, path: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for index in range(4):
        placed(site, index)
        submitted(site)
    client.get(path)
    with django_assert_max_num_queries(60) as few:
        client.get(path)
    for index in range(4, 8):
        placed(site, index)
        for _ in range(3):
            submitted(site)
    with django_assert_max_num_queries(len(few)):
        client.get(path)


def test_a_detail_page_costs_the_same_after_many_attempts(
    client: Client, site: Site, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    job = placed(site, 0, 1, 2)
    with django_assert_max_num_queries(25):
        page = text_of(client.get(f"/jobs/{job.uid}"))
    assert "GPU-n1-0" in page
    assert "data-log" in page


@pytest.mark.parametrize("query", ["attempt=x", "attempt=99&task=99", "attempt=-1", "task=" + "9" * 40, "attempt=²"])
def test_an_attempt_that_is_none_is_passed_over(client: Client, site: Site, query: str) -> None:
    job = placed(site)
    assert client.get(f"/jobs/{job.uid}?{query}").status_code == 200


@pytest.mark.parametrize(
    "path", ["/jobs/%00", "/jobs/env-aaaaaaaaaaaa", "/jobs/job-A", "/jobs?before=%00&q=%00&state=%00"]
)
def test_odd_addresses_are_missing_pages_not_errors(client: Client, path: str) -> None:
    assert client.get(path).status_code in (200, 404)


def test_a_newcomer_without_a_group_is_told_what_to_do(
    site: Site, make_user: Callable[..., User], browser_of: Callable[[User], Client]
) -> None:
    browser = browser_of(make_user("eve"))
    assert "Ask an administrator" in text_of(browser.get("/"))
    assert "Ask an administrator" in text_of(browser.get("/jobs/new"))
    assert browser.post("/jobs/new", FORM).status_code == 200
    assert not Workload.objects.exists()


def test_the_process_runtime_is_said_on_every_page(client: Client, site: Site) -> None:
    for path in ("/", "/jobs", "/environments/new", "/queue"):
        assert "This cluster isolates nothing." in text_of(client.get(path))


def test_the_builders_fit_together() -> None:
    assert a_submission().image == FORM["image"]
