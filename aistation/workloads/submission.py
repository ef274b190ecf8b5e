"""The checks that every submit passes, for environments and jobs alike.

What can never start is refused at once, with every scope that forbids it; what can start later is queued.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.conf import settings

from aistation.catalog.models import Image
from aistation.catalog.mounts import resolve_mounts
from aistation.catalog.selectors import find_image
from aistation.core.errors import DomainError, FieldError, InvalidInputError, NeverFitsError, QuotaExceededError
from aistation.core.validation import env_errors
from aistation.fleet.models import Pool
from aistation.fleet.selectors import capacity
from aistation.quotas.models import QuotaScope
from aistation.quotas.selectors import applying_scopes, as_scheduler_scopes
from aistation.quotas.services import lock_scopes
from aistation.tenancy.models import Group
from aistation.tenancy.policy import Action, Actor
from aistation.tenancy.selectors import list_groups, require
from aistation.workloads.lifecycle import Kind
from aistation.workloads.selectors import count_queued_jobs
from scheduler.feasibility import Refusal, impossible
from scheduler.model import Kind as SchedulerKind
from scheduler.model import Request, Resources, Snapshot

DEFAULT_NAME: Final = "default"


@dataclass(frozen=True, slots=True)
class Submission:
    """What a person asks for, before any check but those of shape. ``group`` and ``pool`` None: the usual ones."""

    kind: Kind
    name: str
    image: str
    resources: Resources
    group: str | None = None
    pool: str | None = None
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[Mapping[str, str]] = ()
    tasks: int = 1
    priority: int = 50
    preemptible: bool = True
    time_limit_s: int | None = None
    max_retries: int = 0
    same_node: bool = False
    spread: bool = False
    node_labels: Sequence[str] = ()
    idle_timeout_s: int | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A submission whose names are rows now. ``columns`` are the model's, ``scopes`` the quotas it counts in."""

    group: Group
    pool: Pool
    image: Image
    columns: Mapping[str, Any]
    scopes: Sequence[QuotaScope]

    @property
    def longest_s(self) -> int | None:
        """The longest lifetime of an environment that the quotas allow; None = no limit."""
        return min(
            (scope.max_environment_s for scope in self.scopes if scope.max_environment_s is not None), default=None
        )


def check(actor: Actor, submission: Submission, now: datetime) -> Checked:
    """All checks that do not depend on what others use. Raises ForbiddenError, InvalidInputError or
    NeverFitsError, each naming every field at fault."""
    errors: list[FieldError] = []
    group = _group(actor, submission, errors)
    pool = _pool(submission, errors)
    image = None if group is None else find_image(group.pk, submission.image, submission.kind)
    if group is not None and image is None:
        message = f"There is no image {submission.image} for this kind of work. GET /api/v1/images lists them."
        errors.append(FieldError("image", "unknown_image", message))
    errors += env_errors(submission.env)
    errors += _command_errors(submission.command)
    if submission.same_node and submission.spread:
        errors.append(FieldError("spread", "contradiction", "Choose same_node or spread, not both."))
    mounts: list[dict[str, str]] = []
    if group is not None:
        require(actor, Action.SUBMIT_WORKLOAD, group_id=group.pk)
        try:
            mounts = resolve_mounts(actor, group, submission.folders, now=now)
        except DomainError as error:
            errors += error.errors
    if errors or group is None or pool is None or image is None:
        raise InvalidInputError("The request has mistakes.", errors=errors)
    scopes = applying_scopes(group_id=group.pk, user_id=actor.user_id, pool_id=pool.pk)
    _refuse_impossible(request_of(actor, submission, group, pool), scopes)
    return Checked(group, pool, image, _columns(submission, group, pool, image, mounts), scopes)


def check_queue_length(actor: Actor, checked: Checked) -> None:
    """Refuse a job more than may wait. Locks the quota scopes, so that no two take the same last place."""
    if all(scope.max_queued_jobs is None for scope in checked.scopes):
        return
    for scope in lock_scopes(group_id=checked.group.pk, user_id=actor.user_id, pool_id=checked.pool.pk):
        if scope.max_queued_jobs is not None:
            queued = count_queued_jobs(group_id=scope.group_id, user_id=scope.user_id, pool_id=scope.pool_id)
            if queued >= scope.max_queued_jobs:
                whose = f"you in group {checked.group.name}" if scope.user_id else f"group {checked.group.name}"
                raise QuotaExceededError(
                    f"{queued} jobs of {whose} wait already; the limit is {scope.max_queued_jobs}."
                    " Wait for one to start, or cancel one.",
                    quantity="queued_jobs",
                    limit=scope.max_queued_jobs,
                    used=queued,
                )


def request_of(actor: Actor, submission: Submission, group: Group, pool: Pool) -> Request:
    """The submission as the scheduler sees it."""
    return Request(
        id="",
        kind=SchedulerKind(submission.kind),
        group_id=group.name,
        user_id=actor.username,
        pool_id=pool.name,
        resources=submission.resources,
        priority=submission.priority,
        queued_at_us=0,
        tasks=submission.tasks,
        preemptible=submission.preemptible,
        time_limit_s=submission.time_limit_s,
        same_node=submission.same_node,
        spread=submission.spread,
        node_labels=frozenset(submission.node_labels),
    )


def _group(actor: Actor, submission: Submission, errors: list[FieldError]) -> Group | None:
    groups = {group.name: group for group in list_groups(actor)}
    if submission.group is not None:
        found = groups.get(submission.group)
        message = f"There is no group {submission.group}, or you are not in it."
    else:
        found = groups.get(DEFAULT_NAME) or (next(iter(groups.values())) if len(groups) == 1 else None)
        message = f"Name the group: {', '.join(groups)}." if groups else "You are in no group. Ask an administrator."
    if found is None:
        errors.append(FieldError("group", "unknown_group", message))
    return found


def _pool(submission: Submission, errors: list[FieldError]) -> Pool | None:
    pools = {pool.name: pool for pool in Pool.objects.order_by("name")}
    fitting = [pool for pool in pools.values() if submission.kind in pool.kinds]
    if submission.pool is not None:
        found = pools.get(submission.pool)
        message = f"There is no pool {submission.pool}. The pools are: {', '.join(pools) or 'none yet'}."
    else:
        usual = [pool for pool in fitting if pool.name == DEFAULT_NAME] or (fitting if len(fitting) == 1 else [])
        found = usual[0] if usual else None
        message = f"Name the pool: {', '.join(pool.name for pool in fitting) or 'none takes this kind of work'}."
    if found is None:
        errors.append(FieldError("pool", "unknown_pool", message))
    return found


def _command_errors(command: Sequence[str]) -> list[FieldError]:
    errors = []
    for index, argument in enumerate(command):
        if "\x00" in argument:
            errors.append(FieldError(f"command[{index}]", "nul", "An argument cannot hold a NUL character."))
        elif len(argument.encode("utf-8", "surrogatepass")) > 131_071:
            message = "An argument can be 131,071 bytes long at most. Put longer scripts in a folder."
            errors.append(FieldError(f"command[{index}]", "too_long", message))
    if sum(len(argument.encode("utf-8", "surrogatepass")) + 1 for argument in command) > 1 << 20:
        errors.append(FieldError("command", "too_long", "The command can be 1 MiB long at most."))
    return errors


def _refuse_impossible(request: Request, scopes: Sequence[QuotaScope]) -> None:
    own = as_scheduler_scopes(scopes)
    recent = capacity(no_older_than_s=settings.CAPACITY_RECENT_S)
    refusals = impossible(request, Snapshot(0, 0, recent.pools, recent.nodes, own, ()))
    if refusals:  # what has joined in the last second may have changed that
        latest = capacity()
        refusals = impossible(request, Snapshot(0, 0, latest.pools, latest.nodes, own, ()))
    errors = [_field_error(refusal) for refusal in refusals]
    errors += priority_errors(request.priority, scopes)
    if errors:
        raise NeverFitsError(
            "This can never start as asked. " + " ".join(error.message for error in errors), errors=errors
        )


def priority_errors(priority: int, scopes: Sequence[QuotaScope]) -> list[FieldError]:
    """Empty when the quotas allow this priority."""
    top = min((scope.max_priority for scope in scopes if scope.max_priority is not None), default=100)
    if 0 <= priority <= top:
        return []
    return [FieldError("priority", "exceeds_quota", f"Priorities 0 to {top} are allowed here.")]


def _field_error(refusal: Refusal) -> FieldError:
    message = refusal.message[:1].upper() + refusal.message[1:] + "."
    facts = {"scope": refusal.scope.value, "scope_id": refusal.scope_id, "would_pass": refusal.would_pass}
    return FieldError(refusal.field, refusal.code.value, message, facts)


def _columns(
    submission: Submission, group: Group, pool: Pool, image: Image, mounts: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    asked = submission.resources
    return {
        "kind": submission.kind,
        "name": submission.name,
        "group": group,
        "pool": pool,
        "image": image,
        "command": list(submission.command),
        "env": dict(submission.env),
        "mounts": [dict(mount) for mount in mounts],
        "cpu_milli": asked.cpu_milli,
        "memory_mib": asked.memory_mib,
        "gpus": asked.gpus,
        "gpu_slices": asked.gpu_slices,
        "gpu_memory_mib": asked.gpu_memory_mib,
        "gpu_compute_milli": asked.gpu_compute_milli,
        "gpu_model": asked.gpu_model,
        "tasks_count": submission.tasks,
        "priority": submission.priority,
        "preemptible": submission.preemptible,
        "time_limit_s": submission.time_limit_s,
        "max_retries": submission.max_retries,
        "same_node": submission.same_node,
        "spread": submission.spread,
        "node_labels": sorted(set(submission.node_labels)),
        "idle_timeout_s": submission.idle_timeout_s,
        "port": image.port if submission.kind is Kind.ENVIRONMENT else None,
    }
