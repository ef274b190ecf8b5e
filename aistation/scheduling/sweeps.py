"""What a lost message left undone, found by looking at the rows.

Each item on its own: one that fails stops no other.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial

from django.db.models import F

from aistation.fleet import services as fleet
from aistation.fleet.models import Duty, Liveness
from aistation.quotas.services import accrue_usage
from aistation.scheduling.mixes import learn
from aistation.tenancy.services import prune_login_failures
from aistation.workloads.lifecycle import HOLDING, WANTED, Kind, Reason, State
from aistation.workloads.models import Workload
from aistation.workloads.services import mark_node_lost, request_preempt, request_stop

logger = logging.getLogger(__name__)


def sweep(now: datetime) -> None:
    """All sweeps, in order."""
    steps = (
        fleet.sweep_liveness,
        end_work_of_lost_nodes,
        empty_draining_nodes,
        stop_what_ran_too_long,
        accrue_usage,
        learn,
        prune_login_failures,
    )
    for step in steps:
        _safely(lambda step=step: step(now), step.__name__)  # type: ignore[misc]


def end_work_of_lost_nodes(now: datetime) -> None:
    """Workloads with a live task on a lost node."""
    rows = Workload.objects.filter(
        state__in=list(HOLDING),
        attempts__number=F("attempt"),
        attempts__tasks__allocation__released_at=None,
        attempts__tasks__node__liveness=Liveness.LOST,
        attempts__tasks__node__last_heartbeat_at__isnull=False,
    )
    for pk, node in rows.order_by("pk").values_list("pk", "attempts__tasks__node__name").distinct():
        _safely(lambda pk=pk, node=node: mark_node_lost(workload_id=pk, node_name=node, now=now), f"workload {pk}")  # type: ignore[misc]


def empty_draining_nodes(now: datetime) -> None:
    """Jobs that may be preempted leave a draining node and wait again in their place; the rest runs to its end."""
    rows = Workload.objects.filter(
        kind=Kind.JOB,
        preemptible=True,
        state__in=list(WANTED),
        attempts__number=F("attempt"),
        attempts__tasks__allocation__released_at=None,
        attempts__tasks__node__duty=Duty.DRAINING,
    )
    for pk, node in rows.order_by("pk").values_list("pk", "attempts__tasks__node__name").distinct():
        message = f"Node {node} is being drained."
        leave = partial(request_preempt, workload_id=pk, reason=Reason.PREEMPTED, message=message, now=now)
        _safely(leave, f"workload {pk}")


def stop_what_ran_too_long(now: datetime) -> None:
    """Jobs over their time limit, environments over their lifetime. By the database's clock."""
    rows = Workload.objects.filter(state=State.RUNNING, time_limit_s__isnull=False, started_at__isnull=False)
    over = rows.extra(where=["started_at + time_limit_s * interval '1 second' <= clock_timestamp()"])
    for pk, kind in over.order_by("pk").values_list("pk", "kind"):
        reason = Reason.TIME_LIMIT if kind == Kind.JOB else Reason.LIFETIME
        _safely(lambda pk=pk, reason=reason: request_stop(workload_id=pk, reason=reason, now=now), f"workload {pk}")  # type: ignore[misc]


def _safely(work: Callable[[], object], what: str) -> None:
    try:
        work()
    except Exception:
        logger.exception("sweep of %s failed", what)
