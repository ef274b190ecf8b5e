"""Who may call: tokens and sessions (S22, S24)."""

from datetime import timedelta

import pytest
from django.test import Client

from aistation.core.clock import now
from aistation.fleet.services import create_join_token, enrol_node
from aistation.tenancy.models import ApiToken, User
from aistation.tenancy.policy import Scope
from aistation.tenancy.services import change_user
from tests.factories.api import JOB, Api, World, api_of, faults


def test_a_token_says_who_calls_and_what_for(world: World) -> None:
    me = api_of(world.site.user, Scope.READ).get("/me")
    assert me["username"] == "alice"
    assert me["groups"] == [{"name": "vision", "role": "member"}]
    assert me["scopes"] == ["read"]


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer wrong", "Basic YTpi", "ais_x", "Bearer \xff\xfe", "Bearer a b"]
)
def test_a_wrong_credential_is_401_with_the_scheme(world: World, header: str) -> None:
    answer = Api(None).call("GET", "/me", authorization=header)
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "unauthenticated"


def test_a_stranger_is_401_whatever_the_address(db: None) -> None:
    for path in ("/me", "/jobs/job-x", "/no/such/thing", "/nodes/a b"):
        assert Api(None).call("GET", path).status_code == 401


def test_a_token_ends_when_revoked_expired_or_its_owner_is_deactivated(world: World, root: Api) -> None:
    made = world.alice.post("/tokens", {"name": "ci"})
    ci = Api(made["token"])
    assert ci.get("/me")["username"] == "alice"
    world.alice.delete(f"/tokens/{made['id']}")
    assert ci.call("GET", "/me").status_code == 401
    late = Api(world.alice.post("/tokens", {"name": "late"})["token"])
    ApiToken.objects.filter(name="late").update(expires_at=now() - timedelta(seconds=1))
    assert late.call("GET", "/me").status_code == 401
    change_user(user_id=world.site.user.pk, is_active=False, now=now(), actor=world.site.actor)
    assert world.alice.call("GET", "/me").status_code == 401


def test_tokens_are_stored_hashed_shown_once_and_listed_without_secret(alice: Api) -> None:
    secret = alice.post("/tokens", {"name": "ci", "scopes": ["read"]})["token"]
    assert secret not in str(list(ApiToken.objects.values()))
    listed = alice.call("GET", "/tokens").content.decode()
    assert secret not in listed
    assert secret[:10] in listed


def test_a_token_lives_ninety_days_at_most(alice: Api) -> None:
    problem = alice.post("/tokens", {"name": "ci", "expires_in_s": 90 * 86400 + 1}, status=400)
    assert faults(problem) == {"expires_in_s": "out_of_range"}


def test_a_token_cannot_make_a_wider_one(world: World) -> None:
    narrow = api_of(world.site.user, Scope.READ, Scope.ADMIN)
    assert faults(narrow.post("/tokens", {"name": "w", "scopes": ["write"]}, status=400)) == {"scopes": "too_wide"}
    assert faults(narrow.post("/tokens", {"name": "w"}, status=400)) == {"scopes": "too_wide"}


def test_a_reading_token_cannot_write(world: World) -> None:
    reader = api_of(world.site.user, Scope.READ)
    assert reader.post("/jobs", JOB, status=403)["code"] == "forbidden"
    assert reader.post("/tokens", {"name": "x"}, status=403)["code"] == "forbidden"


@pytest.mark.parametrize("name", ["token", "access_token", "TOKEN", "api_key"])
def test_a_token_in_the_url_is_refused_even_beside_a_good_one(alice: Api, name: str) -> None:
    answer = alice.call("GET", f"/me?{name}={alice.token}")
    assert (answer.status_code, answer.json()["code"]) == (400, "token_in_url")
    assert Api(None).call("GET", f"/me?{name}={alice.token}").status_code == 400


def test_a_node_token_opens_nothing(world: World) -> None:
    join = create_join_token(pool=world.site.pool, expires_in_s=60, now=now(), actor=None)
    node = enrol_node(join_token=join.secret, name="n2", fingerprint="f", agent_version="1", now=now())
    for secret in (join.secret, node.secret):
        assert Api(secret).call("GET", "/me").status_code == 401


def a_browser(user: User) -> Client:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user)
    return browser


def test_a_session_reads_without_and_writes_only_with_its_csrf_token(world: World) -> None:
    browser = a_browser(world.site.user)
    assert browser.get("/api/v1/me").json()["scopes"] is None
    refused = browser.post("/api/v1/jobs", JOB, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf_failed")
    token = "a" * 32
    browser.cookies["csrftoken"] = token
    accepted = browser.post("/api/v1/jobs", JOB, content_type="application/json", headers={"x-csrftoken": token})
    assert accepted.status_code == 201


def test_a_form_of_another_site_changes_nothing(world: World) -> None:
    browser = a_browser(world.site.user)
    browser.cookies["csrftoken"] = "a" * 32
    answer = browser.post("/api/v1/jobs", {"csrfmiddlewaretoken": "a" * 32}, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert world.alice.get("/jobs")["results"] == []


def test_a_bad_token_is_not_saved_by_a_good_session(world: World) -> None:
    browser = a_browser(world.site.user)
    assert browser.get("/api/v1/me", headers={"authorization": "Bearer wrong"}).status_code == 401


def test_making_tokens_is_slowed_down(alice: Api) -> None:
    for _ in range(30):
        alice.post("/tokens", {"name": "x"})
    answer = alice.call("POST", "/tokens", {"name": "x"})
    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
    assert int(answer["Retry-After"]) > 0
