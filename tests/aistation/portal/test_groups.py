"""Groups and their members."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from aistation.tenancy.models import Group, Membership, User
from aistation.tenancy.policy import Role
from tests.factories.work import placed, submitted
from tests.factories.world import T0, Site, a_group

pytestmark = pytest.mark.django_db
Browsers = Callable[[User], Client]
PAGE = "/groups/vision"


@pytest.fixture
def root(make_user: Callable[..., User], browser_of: Browsers) -> Client:
    return browser_of(make_user("root", admin=True))


@pytest.fixture
def bob(site: Site, make_user: Callable[..., User], browser_of: Browsers) -> Client:
    """A group admin."""
    person = make_user("bob")
    Membership.objects.create(group=site.group, user=person, role=Role.GROUP_ADMIN, created_at=T0)
    return browser_of(person)


def as_seen(answer: Any, name: str) -> str:
    """The page without what differs by the address and the visit."""
    page = re.sub(r'(csrfmiddlewaretoken" value=|X-CSRFToken": )"[^"]*"', "", answer.content.decode())
    return page.replace(f"/{name}", "")


def role_of(username: str) -> int | None:
    return (
        Membership.objects.filter(user__username=username, group__name="vision").values_list("role", flat=True).first()
    )


def test_a_group_admin_adds_changes_and_removes_members(bob: Client, make_user: Callable[..., User]) -> None:
    make_user("carol")
    answer = bob.post(f"{PAGE}/members", {"username": "carol", "role": "viewer"})
    assert (answer.status_code, answer["Location"]) == (303, PAGE)
    assert role_of("carol") == Role.VIEWER
    bob.post(f"{PAGE}/members", {"username": "carol", "role": "member"})
    assert role_of("carol") == Role.MEMBER
    asked = bob.post(f"{PAGE}/members/carol/remove")
    assert "Take carol out of vision?" in asked.content.decode()
    assert role_of("carol") == Role.MEMBER
    bob.post(f"{PAGE}/members/carol/remove", {"confirmed": "yes"})
    assert role_of("carol") is None


def test_an_unknown_person_is_said_by_the_field(bob: Client) -> None:
    page = bob.post(f"{PAGE}/members", {"username": "nobody", "role": "member"}).content.decode()
    assert 'value="nobody"' in page
    assert 'id="id_username_error"' in page
    assert f'hx-get="{PAGE}"' in page


def test_a_member_sees_the_group_and_manages_nothing(site: Site, browser_of: Browsers) -> None:
    placed(site, 0)
    submitted(site)
    client = browser_of(site.user)
    page = client.get(PAGE).content.decode()
    assert "alice" in page
    assert "/members" not in page
    assert client.post(f"{PAGE}/members", {"username": "alice", "role": "group_admin"}).status_code == 403
    assert client.post(f"{PAGE}/members/alice/remove", {"confirmed": "yes"}).status_code == 403
    assert role_of("alice") == Role.MEMBER


def test_another_group_is_missing(site: Site, browser_of: Browsers) -> None:
    """B062"""
    a_group("audio", mallory=Role.GROUP_ADMIN)
    client = browser_of(User.objects.get(username="mallory"))
    foreign, absent = client.get(PAGE), client.get("/groups/nothing")
    assert foreign.status_code == absent.status_code == 404
    assert as_seen(foreign, "vision") == as_seen(absent, "nothing")
    assert client.post(f"{PAGE}/members", {"username": "mallory", "role": "member"}).status_code == 404
    assert client.post(f"{PAGE}/archive", {"confirmed": "yes"}).status_code == 404
    assert "vision" not in client.get("/groups").content.decode()


def test_a_platform_admin_creates_and_archives_groups(site: Site, root: Client) -> None:
    assert root.post("/groups/-/new", {"name": "speech", "display_name": "Speech"}).status_code == 303
    assert "speech" in root.get("/groups").content.decode()
    page = root.post("/groups/-/new", {"name": "speech", "display_name": "Again"}).content.decode()
    assert "The group name speech is taken." in page
    assert 'value="Again"' in page
    root.post("/groups/speech/archive", {"confirmed": "yes"})
    assert root.get("/groups/speech").status_code == 404


def test_a_group_with_live_work_is_not_archived(site: Site, root: Client) -> None:
    submitted(site)
    root.post(f"{PAGE}/archive", {"confirmed": "yes"})
    assert "are live. Cancel or stop them first." in root.get(PAGE).content.decode()
    assert Group.objects.get(name="vision").archived_at is None


def test_others_create_no_groups(bob: Client) -> None:
    assert bob.get("/groups/-/new").status_code == 403
    assert bob.post("/groups/-/new", {"name": "mine"}).status_code == 403
    assert "/groups/-/new" not in bob.get("/groups").content.decode()
