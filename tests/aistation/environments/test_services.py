"""An environment keeps its home, stops and starts again, and is deleted without waiting."""

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from aistation.core.errors import ConflictError, InvalidInputError

if TYPE_CHECKING:
    from aistation.workloads.models import Workload
    from tests.factories.world import Site

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def site(transactional_db: None) -> "Site":
    from tests.factories.world import a_node, a_site  # noqa: PLC0415 - the settings are not loaded yet up there

    made = a_site()
    a_node("n1", made.pool)
    return made


def created(site: "Site", **changes: object) -> "Workload":
    from aistation.environments.services import create_environment  # noqa: PLC0415
    from aistation.workloads.lifecycle import Kind  # noqa: PLC0415
    from tests.factories.world import T0, a_submission  # noqa: PLC0415

    submission = a_submission(Kind.ENVIRONMENT, **changes)
    return create_environment(actor=site.actor, submission=submission, now=T0)


def test_without_folders_the_home_is_mounted(site: "Site") -> None:
    from aistation.catalog.models import Folder  # noqa: PLC0415

    first, second = created(site), created(site)
    home = Folder.objects.get(user=site.user, name="home")
    assert [(mount["folder"], mount["path"], mount["mode"]) for mount in first.mounts] == [
        (mount["folder"], mount["path"], mount["mode"]) for mount in second.mounts
    ]
    assert home.uid in first.mounts[0]["folder"]


def test_stop_and_start_again_makes_a_new_attempt_with_the_same_home(site: "Site") -> None:
    from aistation.environments.services import start_environment  # noqa: PLC0415
    from aistation.scheduling.cycle import run_cycle  # noqa: PLC0415
    from aistation.workloads.lifecycle import Phase, Reason  # noqa: PLC0415
    from aistation.workloads.models import Workload  # noqa: PLC0415
    from aistation.workloads.reports import TaskFacts, record_task_report  # noqa: PLC0415
    from aistation.workloads.services import request_stop  # noqa: PLC0415
    from tests.factories.work import tasks_of  # noqa: PLC0415
    from tests.factories.world import T0  # noqa: PLC0415

    environment = created(site)
    for attempt in (1, 2, 3):
        run_cycle()
        environment = Workload.objects.get(pk=environment.pk)
        assert (environment.state, environment.attempt) == ("starting", attempt)
        with pytest.raises(ConflictError):
            start_environment(workload_id=environment.pk, now=T0, actor=site.actor)
        (task,) = tasks_of(environment)
        request_stop(workload_id=environment.pk, reason=Reason.USER_STOPPED, now=T0, actor=site.actor)
        facts = TaskFacts(task_uid=task.uid, nonce=task.nonce, phase=Phase.GONE)
        record_task_report(node_id=task.node_id, report=facts, now=T0)
        assert Workload.objects.get(pk=environment.pk).state == "stopped"
        start_environment(workload_id=environment.pk, now=T0 + timedelta(hours=attempt), actor=site.actor)
        request_stop(workload_id=environment.pk, reason=Reason.USER_STOPPED, now=T0, actor=site.actor)
        start_environment(workload_id=environment.pk, now=T0 + timedelta(hours=attempt), actor=site.actor)


def test_the_quotas_hours_are_the_lifetime_and_more_is_refused(site: "Site") -> None:
    from aistation.quotas.services import QuotaChange, set_quotas  # noqa: PLC0415
    from tests.factories.world import T0  # noqa: PLC0415

    change = QuotaChange(pool=None, limits={}, guaranteed={}, counts={"max_environment_s": 3600})
    set_quotas(group=site.group, user=None, changes=[change], now=T0, actor=site.actor)
    assert created(site).time_limit_s == 3600
    assert created(site, time_limit_s=60).time_limit_s == 60
    with pytest.raises(InvalidInputError):
        created(site, time_limit_s=3601)


def test_delete_hides_at_once_and_stops_what_runs(site: "Site") -> None:
    from aistation.environments.services import delete_environment  # noqa: PLC0415
    from aistation.scheduling.cycle import run_cycle  # noqa: PLC0415
    from aistation.workloads.lifecycle import Kind  # noqa: PLC0415
    from aistation.workloads.models import Workload  # noqa: PLC0415
    from aistation.workloads.selectors import list_workloads  # noqa: PLC0415
    from tests.factories.world import T0  # noqa: PLC0415

    environment = created(site)
    run_cycle()
    for _ in range(2):
        delete_environment(workload_id=environment.pk, now=T0, actor=site.actor)
    assert list(list_workloads(site.actor, Kind.ENVIRONMENT)) == []
    assert Workload.objects.get(pk=environment.pk).state == "stopping"
