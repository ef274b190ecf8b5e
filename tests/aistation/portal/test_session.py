from collections.abc import Callable

import pytest
from django.test import Client

from aistation.core.clock import now
from aistation.tenancy import services
from aistation.tenancy.models import User
from aistation.tenancy.selectors import actor_of
from tests.factories.world import PASSWORD

pytestmark = pytest.mark.django_db


def sign_in(client: Client, username: str = "alice", password: str = PASSWORD, **more: str) -> object:
    return client.post("/login", {"username": username, "password": password, **more})


def test_a_stranger_is_sent_to_the_sign_in_page_and_comes_back(client: Client, alice: User) -> None:
    answer = client.get("/profile?tab=tokens")
    assert answer.status_code == 302
    assert answer["Location"] == "/login?next=%2Fprofile%3Ftab%3Dtokens"
    answer = client.post("/login", {"username": alice.username, "password": PASSWORD, "next": "/profile?tab=tokens"})
    assert (answer.status_code, answer["Location"]) == (303, "/profile?tab=tokens")


def test_the_first_page_after_signing_in_is_home(client: Client, alice: User) -> None:
    answer = client.post("/login", {"username": alice.username, "password": PASSWORD})
    assert answer["Location"] == "/"
    assert client.get("/").status_code == 200


def test_the_session_is_a_new_one_after_signing_in(client: Client, alice: User) -> None:
    client.get("/login")
    session = client.session
    session["planted"] = "yes"
    session.save()
    before = client.cookies["aistation_session"].value
    sign_in(client)
    assert client.cookies["aistation_session"].value != before


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "/\\evil.example",
        "https:evil.example",
        "https://evil.example/",
        "/%2f%2fevil.example",
        "/%5cevil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "\\\\evil.example",
        " //evil.example",
        "///evil.example",
        "evil.example",
    ],
)
def test_b067_sign_in_leads_to_local_paths_only(client: Client, alice: User, target: str) -> None:
    answer = client.post("/login", {"username": alice.username, "password": PASSWORD, "next": target})
    assert answer["Location"] == "/"
    answer = client.get("/login", {"next": target})
    assert answer["Location"] == "/"


@pytest.mark.parametrize("path", ["/logout", "/look", "/profile/tokens", "/profile/password"])
def test_b067_a_post_without_a_csrf_token_changes_nothing(alice: User, path: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    answer = client.post(path, {"name": "laptop", "expires_in_days": "1", "scopes": "read", "theme": "dark"})
    assert answer.status_code == 403
    assert client.get("/profile").status_code == 200
    assert not alice.tokens.exists()


def test_a_get_never_signs_out(alice: User, browser_of: Callable[[User], Client]) -> None:
    client = browser_of(alice)
    assert client.get("/logout").status_code == 405
    assert client.get("/").status_code == 200


def test_a_wrong_password_keeps_what_was_typed_and_says_nothing_more(client: Client, alice: User) -> None:
    known = client.post("/login", {"username": alice.username, "password": "wrong"}).content.decode()
    unknown = client.post("/login", {"username": "eve", "password": "wrong"}).content.decode()
    assert 'value="alice"' in known
    assert "The user name or the password is wrong." in known
    assert 'value="wrong"' not in known
    assert "The user name or the password is wrong." in unknown


def test_guessing_is_slowed_down_and_the_page_says_so(client: Client, alice: User) -> None:
    for _ in range(10):
        client.post("/login", {"username": alice.username, "password": "wrong"})
    answer = client.post("/login", {"username": alice.username, "password": PASSWORD})
    assert answer.status_code == 429
    assert answer["Retry-After"] == "60"
    assert "Too many failed sign-ins" in answer.content.decode()


def test_deactivation_ends_the_session(
    alice: User, make_user: Callable[..., User], browser_of: Callable[[User], Client]
) -> None:
    admin = actor_of(make_user("root", admin=True).pk)
    assert admin is not None
    client = browser_of(alice)
    assert client.get("/").status_code == 200
    services.change_user(user_id=alice.pk, is_active=False, now=now(), actor=admin)
    assert client.get("/")["Location"] == "/login"


def test_a_new_password_ends_all_sessions_but_this_one(
    alice: User, make_user: Callable[..., User], browser_of: Callable[[User], Client]
) -> None:
    make_user("root", admin=True)
    here, elsewhere = browser_of(alice), browser_of(alice)
    fresh = "another horse battery"
    answer = here.post("/profile/password", {"current": PASSWORD, "password": fresh, "again": fresh})
    assert answer.status_code == 302
    assert here.get("/").status_code == 200
    assert elsewhere.get("/").status_code == 302


def test_language_and_colours_are_remembered(client: Client, alice: User) -> None:
    client.post("/look", {"language": "zh-hans", "theme": "dark"})
    page = client.get("/login").content.decode()
    assert '<html lang="zh-hans" data-bs-theme="dark">' in page
    client.post("/look", {"language": "xx", "theme": "pink"})
    assert '<html lang="zh-hans" data-bs-theme="dark">' in client.get("/login").content.decode()


def test_an_absent_page_looks_the_same_for_everyone(
    alice: User, browser_of: Callable[[User], Client], client: Client
) -> None:
    answer = browser_of(alice).get("/no-such-page")
    assert answer.status_code == 404
    assert "There is no such thing, or it is not yours to see." in answer.content.decode()
    assert client.get("/no-such-page").status_code == 404


def test_a_program_gets_a_problem_where_a_person_gets_a_page(client: Client, db: None) -> None:
    answer = client.get("/api/v1/no-such-route")
    assert answer.status_code in (401, 404)
    assert answer["Content-Type"] == "application/problem+json"
