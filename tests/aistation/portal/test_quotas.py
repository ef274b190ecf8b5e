"""The quota page: units, what is used, who may set what, and two administrators at once."""

import re
from collections.abc import Callable, Mapping
from html import unescape
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from aistation.audit.models import AuditEvent
from aistation.portal.forms.quotas import parse, shown
from aistation.quotas.models import QuotaScope
from aistation.tenancy.models import Membership, User
from aistation.tenancy.policy import Role
from tests.factories.work import placed, submitted
from tests.factories.world import T0, Site, a_group

pytestmark = pytest.mark.django_db
Browsers = Callable[[User], Client]
PAGE = "/quotas/vision"


@pytest.fixture
def root(make_user: Callable[..., User], browser_of: Browsers) -> Client:
    return browser_of(make_user("root", admin=True))


@pytest.fixture
def group_admin(site: Site, make_user: Callable[..., User], browser_of: Browsers) -> Client:
    bob = make_user("bob")
    Membership.objects.create(group=site.group, user=bob, role=Role.GROUP_ADMIN, created_at=T0)
    return browser_of(bob)


def fields_of(page: str) -> dict[str, str]:
    """What a browser would send back."""
    found = {}
    for tag in re.findall(r"<input[^>]*>", page):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        if name and "/" in name[1]:
            found[name[1]] = unescape(value[1]) if value else ""
    return found


def save(client: Client, changes: Mapping[str, str]) -> Any:
    """Open the page, type, send the whole form."""
    fields = fields_of(client.get(PAGE).content.decode())
    assert set(changes) <= set(fields)
    return client.post(PAGE, {**fields, **changes})


def as_seen(answer: Any, name: str) -> str:
    """The page without what differs by the address and the visit."""
    page = re.sub(r'(csrfmiddlewaretoken" value=|X-CSRFToken": )"[^"]*"', "", answer.content.decode())
    return page.replace(f"/{name}", "")


def scope(user: str | None = None, pool: str | None = None) -> QuotaScope:
    return QuotaScope.objects.get(user__username=user, pool__name=pool)


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("1.25", "cards", 1250),
        ("1,25", "cards", 1250),
        ("0", "cards", 0),
        ("40", "cores", 40_000),
        ("64", "memory", 65_536),
        ("512 MiB", "memory", 512),
        ("0.5", "memory", 512),
        ("0", "memory", 0),
        ("12", "hours", 43_200),
        ("1.5", "hours", 5400),
        ("90 min", "hours", 5400),
        ("0", "hours", 0),
        ("7", "count", 7),
        ("100", "priority", 100),
        ("", "cards", None),
        ("  ", "memory", None),
    ],
)
def test_numbers_are_read_in_the_units_of_people(text: str, unit: str, number: int | None) -> None:
    assert parse(text, unit) == number
    assert parse(shown(number, unit), unit) == number


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("-1", "cards"),
        ("1.2345", "cards"),
        ("many", "cards"),
        ("1e3", "cores"),
        ("1.5", "count"),
        ("101", "priority"),
        ("0.0001", "memory"),
        ("999999999", "memory"),
        ("soon", "hours"),
    ],
)
def test_what_is_no_such_number_is_refused(text: str, unit: str) -> None:
    with pytest.raises(ValidationError):
        parse(text, unit)


def test_a_platform_admin_sets_numbers_of_the_group_and_of_its_people(site: Site, root: Client) -> None:
    changes = {
        "*/*/gpu_milli_limit": "6",
        "*/*/gpu_milli_guaranteed": "1.25",
        "*/default/cpu_milli_limit": "40",
        "alice/*/memory_mib_limit": "64",
        "alice/default/max_environment_s": "12",
        "alice/*/max_priority": "0",
    }
    answer = save(root, changes)
    assert (answer.status_code, answer["Location"]) == (303, PAGE)
    assert (scope().gpu_milli_limit, scope().gpu_milli_guaranteed) == (6000, 1250)
    assert scope(pool="default").cpu_milli_limit == 40_000
    assert (scope("alice").memory_mib_limit, scope("alice").max_priority) == (65_536, 0)
    assert scope("alice", "default").max_environment_s == 43_200
    fields = fields_of(root.get(PAGE).content.decode())
    assert {name: fields[name] for name in changes} == changes


def test_only_changed_scopes_are_written(site: Site, root: Client) -> None:
    save(root, {"alice/*/gpu_milli_limit": "2"})
    assert AuditEvent.objects.filter(action="quota.set").count() == 1
    answer = save(root, {})
    assert answer.status_code == 303
    assert AuditEvent.objects.filter(action="quota.set").count() == 1


def test_empty_takes_a_limit_away_and_zero_allows_nothing(site: Site, root: Client) -> None:
    save(root, {"*/*/environments_limit": "0", "*/*/running_jobs_limit": "4"})
    assert (scope().environments_limit, scope().running_jobs_limit) == (0, 4)
    save(root, {"*/*/running_jobs_limit": ""})
    assert (scope().environments_limit, scope().running_jobs_limit) == (0, None)


def test_a_group_has_a_weight_in_each_pool_and_nobody_else_has_one(site: Site, root: Client) -> None:
    assert save(root, {"*/default/weight": "3"}).status_code == 303
    assert scope(pool="default").weight == 3
    fields = fields_of(root.get(PAGE).content.decode())
    assert [name for name in fields if name.endswith("/weight")] == ["*/default/weight"]
    assert fields["*/default/weight"] == "3"
    page = save(root, {"*/default/weight": "0"}).content.decode()
    assert "1 to 1000." in page
    save(root, {"*/default/weight": ""})
    assert scope(pool="default").weight == 1


def test_an_error_stands_by_its_field_nothing_is_lost_and_nothing_is_written(site: Site, root: Client) -> None:
    typed = {"*/*/gpu_milli_limit": "lots", "alice/*/cpu_milli_limit": "8", "alice/*/cpu_milli_guaranteed": "9"}
    page = save(root, typed).content.decode()
    assert {name: fields_of(page)[name] for name in typed} == typed
    assert 'id="*/*/gpu_milli_limit_error"' in page
    assert 'id="alice/*/cpu_milli_guaranteed_error"' in page
    assert "2 rows cannot be saved" in page
    assert not QuotaScope.objects.exclude(cpu_milli_limit=None, gpu_milli_limit=None).exists()


def test_use_over_a_lowered_limit_is_said_and_never_negative(site: Site, root: Client) -> None:
    placed(site, *range(6))
    submitted(site)
    save(root, {"*/*/gpu_milli_limit": "4"})
    page = root.get(PAGE).content.decode()
    assert "6 of 4, over quota" in page
    assert not re.search(r"-\d+ of", page)
    grid = root.get("/quotas").content.decode()
    assert "6 of 4, over quota" in grid


def test_two_administrators_do_not_overwrite_each_other(
    site: Site, root: Client, make_user: Callable[..., User], browser_of: Browsers
) -> None:
    other = browser_of(make_user("other", admin=True))
    fields = fields_of(root.get(PAGE).content.decode())
    save(other, {"*/*/gpu_milli_limit": "6"})
    page = root.post(PAGE, {**fields, "*/*/gpu_milli_limit": "3"}).content.decode()
    assert "Somebody else changed this row meanwhile." in page
    assert "GPU (cards), limit: 6" in page
    assert scope().gpu_milli_limit == 6000
    again = fields_of(page)
    assert again["*/*/gpu_milli_limit"] == "3"
    assert root.post(PAGE, again).status_code == 303
    assert scope().gpu_milli_limit == 3000


def test_a_row_that_only_the_other_administrator_touched_stays_as_that_one_set_it(
    site: Site, root: Client, make_user: Callable[..., User], browser_of: Browsers
) -> None:
    other = browser_of(make_user("other", admin=True))
    fields = fields_of(root.get(PAGE).content.decode())
    save(other, {"*/*/gpu_milli_limit": "6"})
    assert root.post(PAGE, {**fields, "alice/*/gpu_milli_limit": "1"}).status_code == 303
    assert (scope().gpu_milli_limit, scope("alice").gpu_milli_limit) == (6000, 1000)


def test_a_group_admin_sets_people_but_not_the_group(site: Site, group_admin: Client) -> None:
    fields = fields_of(group_admin.get(PAGE).content.decode())
    assert "alice/*/gpu_milli_limit" in fields
    assert not any(name.startswith("*/") for name in fields)
    forged = {"*/*/seen": "[]", "*/*/gpu_milli_limit": "99", "alice/*/gpu_milli_limit": "2"}
    assert group_admin.post(PAGE, {**fields, **forged}).status_code == 303
    assert scope("alice").gpu_milli_limit == 2000
    assert not QuotaScope.objects.filter(user=None, gpu_milli_limit__isnull=False).exists()


def test_a_member_reads_and_sets_nothing(site: Site, browser_of: Browsers) -> None:
    client = browser_of(site.user)
    page = client.get(PAGE).content.decode()
    assert fields_of(page) == {}
    assert "unlimited" in page
    client.post(PAGE, {"alice/*/seen": "[]", "alice/*/gpu_milli_limit": "99"})
    assert not QuotaScope.objects.filter(gpu_milli_limit__isnull=False).exists()


def test_another_groups_quotas_are_missing(site: Site, browser_of: Browsers) -> None:
    """B062"""
    a_group("audio", mallory=Role.GROUP_ADMIN)
    client = browser_of(User.objects.get(username="mallory"))
    foreign, absent = client.get(PAGE), client.get("/quotas/nothing")
    assert foreign.status_code == absent.status_code == 404
    assert as_seen(foreign, "vision") == as_seen(absent, "nothing")
    assert client.post(PAGE, {}).status_code == 404
    assert "vision" not in client.get("/quotas").content.decode()


def test_who_has_left_keeps_a_row_that_nobody_can_set(site: Site, root: Client) -> None:
    save(root, {"alice/*/gpu_milli_limit": "2"})
    Membership.objects.all().delete()
    page = root.get(PAGE).content.decode()
    assert "has left the group" in page
    assert not any(name.startswith("alice/") for name in fields_of(page))


def test_the_number_of_queries_does_not_grow_with_the_group(
    site: Site, root: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        person = User.objects.create(username=f"p{number}", created_at=T0)
        Membership.objects.create(group=site.group, user=person, role=Role.MEMBER, created_at=T0)
    with django_assert_max_num_queries(20):
        root.get(PAGE)
