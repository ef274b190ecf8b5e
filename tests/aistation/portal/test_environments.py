import re
from collections.abc import Callable

import pytest
from django.test import Client

from aistation.environments.services import create_environment
from aistation.tenancy.models import User
from aistation.tenancy.policy import Role
from aistation.workloads.lifecycle import Kind
from aistation.workloads.models import Workload
from tests.factories.world import T0, Site, a_group, a_submission

pytestmark = pytest.mark.django_db
FORM = {
    "name": "notebook",
    "image": "shell",
    "group": "vision",
    "pool": "default",
    "profile": "",
    "cpu": "4",
    "memory": "16",
    "gpu_mode": "slices",
    "gpus": "1",
    "gpu_slices": "1",
    "priority": "50",
    "time_limit": "8 h",
    "idle_timeout": "2 h",
    "folder_name": ["home"],
    "folder_path": ["/workspace"],
    "folder_mode": ["rw"],
}


@pytest.fixture
def client(alice: User, browser_of: Callable[[User], Client]) -> Client:
    return browser_of(alice)


@pytest.fixture
def environment(site: Site) -> Workload:
    made = create_environment(actor=site.actor, submission=a_submission(Kind.ENVIRONMENT, name="bench"), now=T0)
    return Workload.objects.get(pk=made.pk)


def test_an_environment_is_what_the_form_said(client: Client) -> None:
    answer = client.post("/environments/new", FORM)
    made = Workload.objects.get()
    assert answer["Location"] == f"/environments/{made.uid}"
    assert (made.kind, made.gpu_slices, made.time_limit_s, made.idle_timeout_s) == ("environment", 1, 28_800, 7200)
    assert (made.memory_mib, made.preemptible) == (16_384, False)


@pytest.mark.django_db(transaction=True)  # the dry run reads its own snapshot
def test_the_answer_comes_for_environments_too(client: Client) -> None:
    page = client.post("/environments/answer", FORM).content.decode()
    assert "Starts now" in page
    assert "n1" in page


def test_b023_looking_at_a_stopped_environment_does_not_start_it(client: Client, environment: Workload) -> None:
    client.post(f"/environments/{environment.uid}/stop", {"confirmed": "yes"})
    for _ in range(3):
        answer = client.get(f"/environments/{environment.uid}", headers={"HX-Request": "true"})
        assert answer.status_code == 200
        client.get("/environments")
        client.get("/")
    environment.refresh_from_db()
    assert environment.state == "stopped"
    assert client.get(f"/environments/{environment.uid}/start").status_code == 405
    assert client.post(f"/environments/{environment.uid}/start").status_code == 303
    environment.refresh_from_db()
    assert environment.state == "queued"


def test_starting_what_runs_is_refused_in_words(client: Client, environment: Workload) -> None:
    page = client.post(f"/environments/{environment.uid}/start", follow=True).content.decode()
    assert "only a stopped one can start" in page


@pytest.mark.parametrize(("action", "question"), [("stop", "Stop bench?"), ("delete", "Delete bench for good?")])
def test_an_end_is_asked_about_first(client: Client, environment: Workload, action: str, question: str) -> None:
    assert question in client.post(f"/environments/{environment.uid}/{action}").content.decode()
    environment.refresh_from_db()
    assert environment.state == "queued"
    assert environment.deleted_at is None


def test_a_deleted_environment_is_gone(client: Client, environment: Workload) -> None:
    answer = client.post(f"/environments/{environment.uid}/delete", {"confirmed": "yes"})
    assert answer["Location"] == "/environments"
    assert client.get(f"/environments/{environment.uid}").status_code == 404
    assert environment.uid not in client.get("/environments").content.decode()


def test_after_an_action_in_a_list_one_is_back_in_the_list(client: Client, environment: Workload) -> None:
    form = {"confirmed": "yes", "next": "/environments?who=all"}
    assert client.post(f"/environments/{environment.uid}/stop", form)["Location"] == "/environments?who=all"
    form["next"] = "//evil.example"
    answer = client.post(f"/environments/{environment.uid}/start", form)
    assert answer["Location"] == f"/environments/{environment.uid}"


@pytest.mark.parametrize("action", ["", "/start", "/stop", "/delete"])
def test_b062_another_groups_environment_is_as_if_it_did_not_exist(
    environment: Workload, browser_of: Callable[[User], Client], action: str
) -> None:
    a_group("audio", mallory=Role.GROUP_ADMIN)
    browser = browser_of(User.objects.get(username="mallory"))
    ask = browser.post if action else browser.get
    pages = [ask(f"/environments/{uid}{action}", {"confirmed": "yes"}) for uid in (environment.uid, "env-aaaaaaaaaaaa")]
    assert [page.status_code for page in pages] == [404, 404]
    bodies = [re.sub(r'"X-CSRFToken": "[^"]*"', "", page.content.decode()) for page in pages]
    assert bodies[0] == bodies[1]
    environment.refresh_from_db()
    assert environment.state == "queued"


def test_only_the_owner_is_offered_to_open_it(
    environment: Workload,
    site: Site,
    client: Client,
    browser_of: Callable[[User], Client],
    make_user: Callable[..., User],
) -> None:
    Workload.objects.filter(pk=environment.pk).update(state="running", started_at=T0, attempt=0)
    link = f"/environments/{environment.uid}/open"
    assert link in client.get(f"/environments/{environment.uid}").content.decode()
    root = browser_of(make_user("root", admin=True))
    assert link not in root.get(f"/environments/{environment.uid}").content.decode()
    assert link not in root.get("/environments?who=all").content.decode()
