import re
from collections.abc import Callable

import pytest
from django.test import Client

from aistation.core.clock import now
from aistation.tenancy.models import User
from aistation.tenancy.policy import Scope
from aistation.tenancy.selectors import actor_of_token

pytestmark = pytest.mark.django_db
NEW = {"name": "laptop", "expires_in_days": "7", "scopes": ["read"]}


@pytest.fixture
def client(alice: User, browser_of: Callable[[User], Client]) -> Client:
    return browser_of(alice)


def test_a_token_is_shown_once_and_works(client: Client) -> None:
    page = client.post("/profile/tokens", NEW).content.decode()
    found = re.search(r"ais_[A-Za-z0-9_-]+", re.sub(r"<td.*?</td>", "", page, flags=re.DOTALL))
    assert found is not None
    actor, _ = actor_of_token(found.group(), now())
    assert (actor.username, actor.scopes) == ("alice", frozenset({Scope.READ}))
    assert found.group() not in client.get("/profile").content.decode()


def test_a_revoked_token_is_gone(client: Client, alice: User) -> None:
    client.post("/profile/tokens", NEW)
    token = alice.tokens.get()
    asked = client.post(f"/profile/tokens/{token.pk}/revoke")
    assert "lose their access at once" in asked.content.decode()
    token.refresh_from_db()
    assert token.revoked_at is None
    answer = client.post(f"/profile/tokens/{token.pk}/revoke", {"confirmed": "yes"})
    assert answer.status_code == 303
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_another_persons_token_cannot_be_revoked(
    client: Client, make_user: Callable[..., User], browser_of: Callable[[User], Client]
) -> None:
    """B062"""
    eve = make_user("eve")
    browser_of(eve).post("/profile/tokens", NEW)
    answer = client.post(f"/profile/tokens/{eve.tokens.get().pk}/revoke", {"confirmed": "yes"})
    absent = client.post("/profile/tokens/999999/revoke", {"confirmed": "yes"})
    assert answer.status_code == absent.status_code == 404
    assert eve.tokens.get().revoked_at is None


def test_what_is_wrong_stands_by_its_field_and_nothing_typed_is_lost(client: Client, alice: User) -> None:
    page = client.post("/profile/tokens", {**NEW, "name": "No Good", "expires_in_days": "400"}).content.decode()
    assert 'value="No Good"' in page
    assert 'id="id_expires_in_days_error"' in page
    page = client.post("/profile/tokens", {**NEW, "name": "No Good"}).content.decode()
    assert 'id="id_name_error"' in page
    assert not alice.tokens.exists()


def test_the_present_password_is_asked_for(client: Client, alice: User) -> None:
    fresh = "another horse battery"
    page = client.post("/profile/password", {"current": "wrong", "password": fresh, "again": fresh}).content.decode()
    assert "This is not the present password." in page
    alice.refresh_from_db()
    assert not alice.check_password(fresh)
