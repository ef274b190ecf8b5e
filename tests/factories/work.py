"""Work for tests: submitted through the product, placed by hand where a test needs to say on which card."""

from datetime import timedelta
from itertools import count
from typing import Any

from django.db import transaction

from aistation.fleet.models import Device
from aistation.jobs.services import submit_job
from aistation.workloads.allocations import Start, TaskTarget, place
from aistation.workloads.models import Task, Workload
from aistation.workloads.services import lock
from tests.factories.world import T0, Site, a_submission

_ticks = count()


def submitted(site: Site, **changes: Any) -> Workload:
    """A queued job, each a second younger than the one before."""
    now = T0 + timedelta(seconds=next(_ticks))
    return submit_job(actor=site.actor, submission=a_submission(**changes), now=now)


def placed(site: Site, *cards: int, **changes: Any) -> Workload:
    """A job whose tasks each hold one whole card of the given numbers (default: one task on card 0)."""
    job = submitted(site, tasks=len(cards) or 1, **changes)
    with transaction.atomic():
        workload, scopes = lock(job.pk)
        targets = []
        for rank, number in enumerate(cards or (0,)):
            device = Device.objects.get(uuid=f"GPU-n1-{number}")
            targets.append(TaskTarget(rank, device.node_id, [(device.pk, device.memory_mib or 0, 1000, True)]))
        place([Start(workload, scopes, targets, card_milli=1000)], epoch=1, now=T0)
    return Workload.objects.get(pk=job.pk)


def tasks_of(workload: Workload) -> list[Task]:
    rows = Task.objects.filter(attempt__workload=workload, attempt__number=workload.attempt)
    return list(rows.select_related("node").order_by("rank"))
