"""Limits, use and what waits, side by side."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from aistation.quotas.models import QuotaScope
from aistation.quotas.selectors import (
    Quantity,
    applying_scopes,
    member_quota_rows,
    quota_rows,
    scheduler_scopes,
    user_quota_rows,
)
from aistation.quotas.services import QuotaChange, set_quotas
from aistation.tenancy.models import User
from aistation.tenancy.policy import Role
from scheduler.model import Limit
from tests.factories.work import placed, submitted
from tests.factories.world import T0, Site, a_group, a_node, a_pool, a_site


@pytest.fixture
def site(db: None) -> Site:
    made = a_site()
    a_node("n1", made.pool)
    return made


def limit(site: Site, user: User | None = None, **limits: int | None) -> None:
    change = QuotaChange(pool=None, limits=limits, guaranteed={}, counts={})
    set_quotas(group=site.group, user=user, changes=[change], now=T0, actor=site.actor)


def test_a_group_without_numbers_has_one_row_without_limits(site: Site) -> None:
    (row,) = quota_rows(site.group)
    assert (row.user, row.pool, row.queued_jobs) == (None, None, 0)
    assert set(row.quantities.values()) == {Quantity(guaranteed=0), Quantity()}


@pytest.mark.parametrize(
    ("used", "most", "free", "over"),
    [(6, 4, 0, True), (4, 4, 0, False), (0, 0, 0, False), (3, None, None, False), (1, 4, 3, False)],
)
def test_room_is_never_negative_and_over_is_said(used: int, most: int | None, free: int | None, over: bool) -> None:
    """B006."""
    assert (Quantity(used, most).free, Quantity(used, most).is_over) == (free, over)


def test_use_and_queue_count_for_person_group_and_pool(site: Site) -> None:
    placed(site, 0, 1)
    submitted(site)
    submitted(site)
    rows = [*quota_rows(site.group), *user_quota_rows(site.group, site.user)]
    assert [(row.user, row.pool) for row in rows] == [
        (None, None),
        (None, "default"),
        ("alice", None),
        ("alice", "default"),
    ]
    for row in rows:
        assert (row.quantities["gpu_milli"].used, row.quantities["running_jobs"].used, row.queued_jobs) == (2000, 1, 2)


def test_another_group_of_the_same_person_counts_apart(site: Site) -> None:
    other = a_group("speech", alice=Role.MEMBER)
    submitted(site, group="vision")
    assert quota_rows(other)[0].queued_jobs == 0
    assert user_quota_rows(other, site.user)[0].queued_jobs == 0


def test_members_without_numbers_are_listed_too_and_the_queries_do_not_grow(site: Site) -> None:
    a_group("big", **{f"person-{n}": Role.MEMBER for n in range(10)})
    assert list(member_quota_rows(site.group)) == ["alice"]
    from aistation.tenancy.models import Group  # noqa: PLC0415

    with CaptureQueriesContext(connection) as queries:
        assert len(member_quota_rows(Group.objects.get(name="big"))) == 10
    assert len(queries) == 4


def test_the_scheduler_gets_every_limit_by_name_in_one_query(site: Site) -> None:
    placed(site, 0)
    limit(site, gpu_milli=6000)
    limit(site, site.user, running_jobs=0)
    with CaptureQueriesContext(connection) as queries:
        scopes = scheduler_scopes()
    assert len(queries) == 1
    by_id = {scope.id: scope for scope in scopes}
    whole, person = by_id["vision/*/*"], by_id["vision/alice/*"]
    assert set(by_id) == {"vision/*/*", "vision/alice/*", f"vision/*/{site.pool.name}"}  # the last for its weight
    assert (whole.group_id, whole.user_id, whole.pool_id, whole.gpu_milli) == ("vision", None, None, Limit(6000, 1000))
    assert (person.user_id, person.pool_id, person.running_jobs) == ("alice", None, Limit(0, 1))


def test_a_workload_counts_in_four_scopes_at_most(site: Site) -> None:
    other = a_pool("other")
    for user in (None, site.user):
        for pool in (None, site.pool, other):
            QuotaScope.objects.create(group=site.group, user=user, pool=pool)
    found = applying_scopes(group_id=site.group.pk, user_id=site.user.pk, pool_id=site.pool.pk)
    assert {(scope.user_id, scope.pool_id) for scope in found} == {
        (user, pool) for user in (None, site.user.pk) for pool in (None, site.pool.pk)
    }
