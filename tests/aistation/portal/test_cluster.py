"""The cluster map: capacity in words, states, and whose work is on which card."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from aistation.fleet.models import Device, Node
from aistation.tenancy.models import User
from aistation.tenancy.policy import Role
from tests.factories.work import placed
from tests.factories.world import Site, a_group, a_node, a_pool

pytestmark = pytest.mark.django_db
Browsers = Callable[[User], Client]


def page_of(client: Client) -> str:
    return client.get("/cluster").content.decode()


def test_a_pool_says_what_is_free_of_it(site: Site, browser_of: Browsers) -> None:
    placed(site, 0, 1)
    page = page_of(browser_of(site.user))
    assert "6 of 8 cards free, 48 of 64 slices free" in page
    assert page.count("whole card taken") >= 2


def test_own_work_is_named_and_linked(site: Site, browser_of: Browsers) -> None:
    job = placed(site, 0, name="resnet")
    page = page_of(browser_of(site.user))
    assert f'href="/jobs/{job.uid}"' in page
    assert "slice-own" in page
    assert "resnet · alice, vision · whole card" in page


def test_a_colleagues_work_is_named_in_the_colour_of_the_group(site: Site, browser_of: Browsers) -> None:
    job = placed(site, 0)
    a_group("friends", bob=Role.MEMBER)
    bob = User.objects.get(username="bob")
    bob.memberships.create(group=site.group, role=Role.VIEWER, created_at=site.group.created_at)
    page = page_of(browser_of(bob))
    assert f'href="/jobs/{job.uid}"' in page
    assert 'class="slice slice-group"' in page


def test_others_see_that_a_card_is_taken_and_nothing_more(site: Site, browser_of: Browsers) -> None:
    """B062"""
    job = placed(site, 0, name="secret-project")
    a_group("audio", mallory=Role.GROUP_ADMIN)
    page = page_of(browser_of(User.objects.get(username="mallory")))
    assert 'class="slice slice-other"' in page
    assert "another group · whole card" in page
    for hidden in (job.uid, "secret-project", "alice", "vision"):
        assert hidden not in page


def test_a_node_says_what_it_cannot_do(site: Site, browser_of: Browsers) -> None:
    Node.objects.filter(name="n1").update(simulated=True, runtime_error="docker is away", disk_used_percent=97)
    page = page_of(browser_of(site.user))
    for text in ("simulated", "isolates nothing", "docker is away", "97 % full"):
        assert text in page


def test_a_broken_card_says_why(site: Site, browser_of: Browsers) -> None:
    Device.objects.filter(uuid="GPU-n1-0").update(healthy=False, reason="XID 79: fallen off the bus")
    page = page_of(browser_of(site.user))
    assert "XID 79: fallen off the bus" in page
    assert "7 of 7 cards free" in page


def test_an_empty_cluster_tells_an_administrator_what_to_do(
    make_user: Callable[..., User], browser_of: Browsers
) -> None:
    root = browser_of(make_user("root", admin=True))
    assert "Create a pool" in page_of(root)
    a_pool()
    assert "/nodes/join" in page_of(root)
    assert "/nodes/join" not in page_of(browser_of(make_user("eve")))


def test_the_part_alone_is_what_the_page_shows(site: Site, browser_of: Browsers) -> None:
    client = browser_of(site.user)
    part = client.get("/cluster", headers={"HX-Request": "true"}).content.decode()
    assert part.lstrip().startswith('<div id="cluster"')
    assert "<html" not in part


def test_the_number_of_queries_does_not_grow_with_the_cluster(
    site: Site,
    browser_of: Browsers,
    django_assert_max_num_queries: Any,
) -> None:
    placed(site, 0)
    client = browser_of(site.user)
    for number in range(2, 6):
        a_node(f"n{number}", site.pool)
        a_pool(f"pool{number}")
    with django_assert_max_num_queries(20):
        client.get("/cluster")
