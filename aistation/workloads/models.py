"""Tables of workloads, their attempts and tasks, what these hold, and what they logged."""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from aistation.catalog.models import Image
from aistation.fleet.models import Device, LendingRule, Node, Pool
from aistation.tenancy.models import Group, User
from aistation.workloads.lifecycle import Event, Kind, Phase, Reason, State


def _choices(names: type[State | Kind | Event | Phase | Reason]) -> list[tuple[str, str]]:
    return [(name.value, name.value) for name in names]


class Workload(models.Model):
    """An environment or a job. ``state`` and ``reason`` are two things; only ``services.apply_event`` sets them."""

    uid = models.CharField(max_length=32, unique=True)
    kind = models.CharField(max_length=12, choices=_choices(Kind))
    name = models.CharField(max_length=128)
    group = models.ForeignKey(Group, on_delete=models.PROTECT)
    user = models.ForeignKey(User, on_delete=models.PROTECT)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT)
    image = models.ForeignKey(Image, on_delete=models.PROTECT)
    command = models.JSONField(default=list)
    env = models.JSONField(default=dict, help_text="may hold secrets: never shown, logged or audited")
    mounts = models.JSONField(default=list, help_text="[{folder: uid, name, path, mode}]")

    cpu_milli = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    gpus = models.PositiveSmallIntegerField(default=0)
    gpu_slices = models.PositiveSmallIntegerField(null=True)
    gpu_memory_mib = models.PositiveIntegerField(null=True)
    gpu_compute_milli = models.PositiveSmallIntegerField(null=True)
    gpu_model = models.CharField(max_length=128, null=True)  # noqa: DJ001 - null is "any", as in the API
    tasks_count = models.PositiveSmallIntegerField(default=1)
    priority = models.PositiveSmallIntegerField(default=50)
    preemptible = models.BooleanField(default=True)
    time_limit_s = models.PositiveIntegerField(null=True, help_text="of an attempt; an environment's lifetime")
    max_retries = models.PositiveSmallIntegerField(default=0)
    same_node = models.BooleanField(default=False, help_text="all tasks on one node")
    spread = models.BooleanField(default=False, help_text="each task on a node of its own")
    node_labels: Any = ArrayField(models.CharField(max_length=127), default=list)

    # environments only
    idle_timeout_s = models.PositiveIntegerField(null=True)
    port = models.PositiveIntegerField(null=True)
    access_token = models.CharField(max_length=64, blank=True, help_text="the container's own; the gateway injects it")

    state = models.CharField(max_length=12, choices=_choices(State))
    reason = models.CharField(max_length=16, choices=_choices(Reason), blank=True, help_text="why it ended")
    stop_reason = models.CharField(max_length=16, choices=_choices(Reason), blank=True, help_text="why it shall end")
    message = models.CharField(max_length=1000, blank=True, help_text="for people, about the present state")
    pending_reasons = models.JSONField(default=list)
    earliest_start = models.DateTimeField(null=True, help_text="estimate while it waits; null: cannot be said")
    latest_start = models.DateTimeField(null=True)
    promised_start = models.DateTimeField(null=True, help_text="the first that a reservation named; it keeps its place")
    attempt = models.PositiveIntegerField(default=0, help_text="number of the latest attempt; 0 before the first")
    retries_used = models.PositiveSmallIntegerField(default=0)
    exit_code = models.SmallIntegerField(null=True)
    submitted_at = models.DateTimeField()
    queued_at = models.DateTimeField(help_text="decides the place among equals; kept over requeues")
    started_at = models.DateTimeField(null=True, help_text="of the latest attempt")
    ended_at = models.DateTimeField(null=True)
    changed_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(name="workload_state_known", condition=Q(state__in=list(State))),
            models.CheckConstraint(name="workload_priority", condition=Q(priority__lte=100)),
            models.CheckConstraint(name="workload_tasks", condition=Q(tasks_count__gte=1)),
            models.CheckConstraint(
                name="workload_ended_when_terminal",
                condition=Q(ended_at=None)
                | ~Q(state__in=["queued", "held", "scheduled", "pulling", "starting", "running"]),
            ),
        ]
        indexes = [
            models.Index(
                fields=["pool", "-priority", "queued_at", "uid"],
                name="workload_queue",
                condition=Q(state="queued"),
            ),
            models.Index(
                fields=["state"],
                name="workload_live",
                condition=Q(
                    state__in=[
                        "held",
                        "queued",
                        "scheduled",
                        "pulling",
                        "starting",
                        "running",
                        "stopping",
                        "preempting",
                    ]
                ),
            ),
            models.Index(fields=["group", "kind", "-id"], name="workload_group"),
            models.Index(fields=["user", "kind", "-id"], name="workload_user"),
            models.Index(fields=["kind", "-id"], name="workload_kind"),
        ]

    def __str__(self) -> str:
        return self.uid


class Transition(models.Model):
    """What happened to a workload. Append-only (a trigger refuses changes)."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="transitions")
    attempt = models.PositiveIntegerField()
    event = models.CharField(max_length=16, choices=_choices(Event))
    from_state = models.CharField(max_length=12, blank=True)
    to_state = models.CharField(max_length=12)
    reason = models.CharField(max_length=16, blank=True)
    actor = models.CharField(max_length=64)
    message = models.CharField(max_length=1000, blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workload", "attempt", "event"],
                name="transition_once_an_attempt",
                condition=~Q(event__in=["hold", "release", "resume"]) & ~Q(from_state__in=["queued", "held"]),
            )
        ]


class Attempt(models.Model):
    """One try of a workload. Numbers only rise; ``epoch`` is the scheduler's that placed it."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    epoch = models.BigIntegerField()
    placed_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    saved_at = models.DateTimeField(null=True, help_text="last checkpoint that the job reported")
    ended_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=16, choices=_choices(Reason), blank=True)
    message = models.CharField(max_length=1000, blank=True)
    exit_code = models.SmallIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "number"], name="attempt_once")]


class Task(models.Model):
    """One container of an attempt. ``settled_at``: the server has its end and its whole log, the node may forget it."""

    uid = models.CharField(max_length=48, unique=True)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="tasks")
    rank = models.PositiveSmallIntegerField()
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="tasks")
    nonce = models.CharField(max_length=64)
    phase = models.CharField(max_length=10, choices=_choices(Phase), default=Phase.PENDING)
    exit_code = models.SmallIntegerField(null=True)
    oom_killed = models.BooleanField(default=False)
    error = models.CharField(max_length=32, blank=True)
    message = models.CharField(max_length=1000, blank=True)
    container_id = models.CharField(max_length=80, blank=True)
    host_port = models.PositiveIntegerField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    log_stored = models.BigIntegerField(default=0, help_text="bytes of the log that the server holds")
    log_bytes = models.BigIntegerField(null=True, help_text="its full length, once the task has ended")
    log_truncated = models.BooleanField(default=False)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "rank"], name="task_rank_once")]
        indexes = [models.Index(fields=["node"], name="task_unsettled", condition=Q(settled_at=None))]


class Allocation(models.Model):
    """What a task holds on its node and is charged for. Held until ``released_at``."""

    task = models.OneToOneField(Task, on_delete=models.CASCADE, related_name="allocation")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="allocations")
    cpu_milli = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    card_milli = models.PositiveIntegerField(help_text="card equivalents charged to the quota")
    epoch = models.BigIntegerField()
    taken_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True)
    lent_by = models.ForeignKey(
        LendingRule, on_delete=models.SET_NULL, null=True, related_name="+", help_text="on another pool's cards"
    )

    class Meta:
        indexes = [models.Index(fields=["node"], name="allocation_live", condition=Q(released_at=None))]


class DeviceShare(models.Model):
    """Part of a card that an allocation holds."""

    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="shares")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="shares")
    memory_mib = models.PositiveIntegerField()
    compute_milli = models.PositiveSmallIntegerField()
    whole = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["allocation", "device"], name="share_once_a_card"),
            models.CheckConstraint(name="share_compute", condition=Q(compute_milli__range=(1, 1000))),
        ]


class LogChunk(models.Model):
    """Bytes of a task's log, as they came. Both streams share the offsets; chunks never overlap."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="log_chunks")
    offset = models.BigIntegerField()
    stream = models.CharField(max_length=6)
    size = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["task", "offset"], name="log_chunk_once"),
            models.CheckConstraint(name="log_chunk_size", condition=Q(size__gte=1) & Q(offset__gte=0)),
        ]


class QueueOrder(models.Model):
    """The order in which a pool's queue is served, as last decided. What came since stands behind it."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="+")
    uids: Any = ArrayField(models.CharField(max_length=32), default=list)
    reservations = models.JSONField(default=list, help_text="[{id, nodes, starts_at}]")
    decided_at = models.DateTimeField()
