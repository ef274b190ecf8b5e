"""Pools and what changing them does to the nodes."""

from typing import Any

import pytest

from aistation.audit.models import AuditEvent
from aistation.core.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from aistation.fleet import selectors, services
from aistation.fleet.models import Node, Pool
from aistation.tenancy.policy import Action, Actor
from tests.aistation.fleet.builders import T0, V100_MIB, a_device, a_node, a_platform_admin, a_pool

pytestmark = pytest.mark.django_db
ADMIN = a_platform_admin()


def change(pool: Pool, **changes: Any) -> Pool:
    return services.change_pool(pool_id=pool.pk, changes=changes, now=T0, actor=ADMIN)


def test_a_pool_is_created_with_its_rules() -> None:
    services.create_pool(
        name="training", kinds=["job", "job"], now=T0, actor=ADMIN, slices_per_gpu=8, strategy="spread"
    )
    pool = selectors.access_pool(ADMIN, "training")
    assert (pool.kinds, pool.slices_per_gpu, pool.gpu_reserve_mib, pool.strategy) == (["job"], 8, 512, "spread")
    assert AuditEvent.objects.get().target == "training"


def test_a_name_is_taken_once() -> None:
    a_pool("training")
    with pytest.raises(ConflictError) as refused:
        services.create_pool(name="training", kinds=["job"], now=T0, actor=ADMIN)
    assert refused.value.errors[0].field == "name"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kinds", []),
        ("kinds", ["job", "batch"]),
        ("slices_per_gpu", 65),
        ("slices_per_gpu", -1),
        ("gpu_reserve_mib", -1),
        ("cpu_overcommit_percent", 99),
        ("cpu_overcommit_percent", 1001),
        ("strategy", "random"),
        ("name", "Training"),
    ],
)
def test_rules_out_of_range_are_refused_by_field(field: str, value: Any) -> None:
    rules: dict[str, Any] = {"name": "training", "kinds": ["job"], field: value}
    with pytest.raises(InvalidInputError) as refused:
        services.create_pool(**rules, now=T0, actor=ADMIN)
    assert [error.field for error in refused.value.errors] == [field]


def test_only_what_changed_is_audited() -> None:
    pool = a_pool()
    change(pool, strategy="spread", kinds=["job", "environment"])
    change(pool, strategy="spread")
    event = AuditEvent.objects.get()
    assert (event.before, event.after) == ({"strategy": "pack"}, {"strategy": "spread"})


def test_a_new_overcommit_counts_at_once_and_running_work_stays() -> None:
    pool = a_pool(cpu_overcommit_percent=200)
    a_node(pool, "node-1", cpu_milli=96_000, cpu_taken_milli=60_000)
    a_node(pool, "node-2", cpu_milli=96_000, cpu_taken_milli=10_000)
    a_node(a_pool("other"), "node-3")
    change(pool, cpu_overcommit_percent=100)
    numbers = Node.objects.order_by("name").values_list("cpu_milli", "cpu_taken_milli", "cpu_over_milli")
    assert list(numbers) == [(48_000, 60_000, 60_000), (48_000, 10_000, 0), (48_000, 0, 0)]


@pytest.mark.parametrize("field", ["slices_per_gpu", "gpu_reserve_mib"])
def test_cards_are_not_cut_anew_under_slices_in_use(field: str) -> None:
    pool = a_pool(slices_per_gpu=8)
    node = a_node(pool)
    share = a_device(node, "GPU-1", taken_milli=125, memory_taken_mib=4_000)
    a_device(node, "GPU-2", taken_milli=1000, memory_taken_mib=V100_MIB)
    with pytest.raises(ConflictError) as refused:
        change(pool, **{field: 4})
    assert "node-1" in refused.value.message
    services.give_back_device(share.pk, 4_000, 125)
    assert getattr(change(pool, **{field: 4}), field) == 4


def test_people_see_pools_and_only_platform_admins_change_them() -> None:
    a_pool()
    member = Actor(2, "ann")
    assert selectors.access_pool(member, "default").name == "default"
    with pytest.raises(ForbiddenError):
        selectors.access_pool(member, "default", Action.MANAGE_POOLS)
    with pytest.raises(NotFoundError):
        selectors.access_pool(member, "absent")
