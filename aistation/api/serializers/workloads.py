"""Jobs and environments."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from aistation.api.fields import BIGGEST, Choice, Flag, Input, Integer, Output, Text
from aistation.environments.addresses import url_of
from aistation.workloads.lifecycle import Event, Kind, Reason, State
from aistation.workloads.selectors import latest_tasks
from scheduler.model import Reason as PendingCode
from scheduler.model import Resources

STATES = tuple(state.value for state in State)
REASONS = tuple(reason.value for reason in Reason)
KINDS = tuple(kind.value for kind in Kind)
USUAL_CPU_MILLI = 1000
USUAL_MEMORY_MIB = 1024
MOST_SMALL = 32767
"""What PostgreSQL's ``smallint`` holds."""
LONGEST_TEXT = 200_000
"""Of an argument or a variable; the service names the limit in bytes, which is lower."""


class ResourcesInput(Input):
    """Of each task. Absent and ``{}`` mean the defaults; null where allowed means "not asked for"."""

    cpu_milli = Integer(1, default=USUAL_CPU_MILLI)
    memory_mib = Integer(1, default=USUAL_MEMORY_MIB)
    gpus = Integer(0, MOST_SMALL, default=0, help_text="Alone: whole cards. With a share: that share of each of them.")
    gpu_slices = Integer(1, 64, allow_null=True, default=None)
    gpu_memory_mib = Integer(1, allow_null=True, default=None)
    gpu_compute_milli = Integer(1, 1000, allow_null=True, default=None)
    gpu_model = Text(128, allow_null=True, default=None)


class ResourcesOutput(Output):
    cpu_milli = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    gpus = serializers.IntegerField()
    gpu_slices = serializers.IntegerField(allow_null=True)
    gpu_memory_mib = serializers.IntegerField(allow_null=True)
    gpu_compute_milli = serializers.IntegerField(allow_null=True)
    gpu_model = serializers.CharField(allow_null=True)


def resources_of(value: dict[str, Any]) -> Resources:
    """Of a checked `ResourcesInput`, or of nothing."""
    return Resources(**{"cpu_milli": USUAL_CPU_MILLI, "memory_mib": USUAL_MEMORY_MIB, **value})


class MountInput(Input):
    folder = Text(63, help_text="Id or name; `home` is your own, `shared` the group's.")
    path = Text(255)
    mode = Choice(("ro", "rw"), default="rw")


class MountOutput(Output):
    folder = serializers.CharField(source="name")
    id = serializers.CharField(source="folder")
    path = serializers.CharField()
    mode = serializers.ChoiceField(("ro", "rw"))


class WorkloadInput(Input):
    name = Text(128)
    group = Text(63, allow_null=True, default=None, help_text="null: your usual one.")
    pool = Text(63, allow_null=True, default=None, help_text="null: the usual one.")
    image = Text(63)
    command = serializers.ListField(child=Text(LONGEST_TEXT, allow_blank=True), default=list, max_length=4096)
    env = serializers.DictField(
        child=Text(LONGEST_TEXT, allow_blank=True), default=dict, help_text="Write-only: answers name them only."
    )
    folders = MountInput(many=True, default=list)
    priority = Integer(0, 100, default=50)


class JobInput(WorkloadInput):
    name = Text(128, default="job")
    resources = ResourcesInput(default=dict)
    tasks = Integer(1, MOST_SMALL, default=1, help_text="Equal tasks that start together or not at all.")
    preemptible = Flag(default=True)
    time_limit_s = Integer(1, BIGGEST, allow_null=True, default=None)
    max_retries = Integer(0, 100, default=0)
    same_node = Flag(default=False, help_text="All tasks on one node.")
    spread = Flag(default=False, help_text="Each task on a node of its own.")
    node_labels = serializers.ListField(
        child=Text(127), default=list, max_length=32, help_text="key=value; the nodes must have all of them."
    )


class JobChangeInput(Input):
    name = Text(128, required=False)
    priority = Integer(0, 100, required=False)
    preemptible = Flag(required=False)
    time_limit_s = Integer(1, BIGGEST, required=False)
    max_retries = Integer(0, 100, required=False)


class EnvironmentInput(WorkloadInput):
    name = Text(128, default="environment")
    resources = ResourcesInput(required=False)
    profile = Text(63, allow_null=True, required=False, help_text="A named bundle, instead of resources.")
    idle_timeout_s = Integer(1, BIGGEST, allow_null=True, default=None)
    lifetime_s = Integer(1, BIGGEST, allow_null=True, default=None)


class PendingReasonOutput(Output):
    code = serializers.ChoiceField([code.value for code in PendingCode])
    message = serializers.CharField()
    numbers = serializers.DictField()


class GrantOutput(Output):
    uuid = serializers.CharField(source="device.uuid")
    node = serializers.CharField(source="device.node_id")
    model = serializers.CharField(source="device.model")
    memory_mib = serializers.IntegerField(help_text="As granted, which may be more than was asked.")
    compute_milli = serializers.IntegerField()


class WorkloadOutput(Output):
    """``queue_position``: from ``context["positions"]``, by row id."""

    id = serializers.CharField(source="uid")
    name = serializers.CharField()
    group = serializers.CharField(source="group.name")
    user = serializers.CharField(source="user.username")
    pool = serializers.CharField(source="pool.name")
    image = serializers.CharField(source="image.name")
    command = serializers.ListField(child=serializers.CharField())
    env_names = serializers.SerializerMethodField()
    folders = MountOutput(many=True, source="mounts")
    resources = ResourcesOutput(source="*")
    priority = serializers.IntegerField()
    state = serializers.ChoiceField(STATES)
    reason = serializers.SerializerMethodField(help_text="Why it ended; null before.")
    message = serializers.CharField()
    pending_reasons = PendingReasonOutput(many=True)
    queue_position = serializers.SerializerMethodField(help_text="1 is next; null: it does not wait.")
    attempt = serializers.IntegerField(help_text="0 before the first.")
    node = serializers.SerializerMethodField(help_text="Of the first task; null before placement.")
    nodes = serializers.SerializerMethodField(help_text="By task.")
    gpus = serializers.SerializerMethodField()
    exit_code = serializers.IntegerField(allow_null=True)
    submitted_at = serializers.DateTimeField()
    queued_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_env_names(self, row: Any) -> list[str]:
        return sorted(row.env)

    @extend_schema_field(serializers.ChoiceField(REASONS, allow_null=True))
    def get_reason(self, row: Any) -> str | None:
        return row.reason or None

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_queue_position(self, row: Any) -> int | None:
        positions: dict[int, int] = self.context.get("positions", {})
        return positions.get(row.pk)

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_node(self, row: Any) -> str | None:
        return next(iter(self.get_nodes(row)), None)

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_nodes(self, row: Any) -> list[str]:
        return [task.node.name for task in latest_tasks(row)]

    @extend_schema_field(GrantOutput(many=True))
    def get_gpus(self, row: Any) -> list[dict[str, Any]]:
        shares = [(task, share) for task in latest_tasks(row) for share in task.allocation.shares.all()]
        return [{**GrantOutput(share).data, "node": task.node.name} for task, share in shares]


class EstimateOutput(Output):
    """Between which times a start is expected. ``latest`` null: nobody can say."""

    earliest = serializers.DateTimeField(source="earliest_start", allow_null=True)
    latest = serializers.DateTimeField(source="latest_start", allow_null=True)


@extend_schema_field(EstimateOutput(allow_null=True))
class EstimateField(serializers.Field):  # type: ignore[type-arg]
    """null: it does not wait, or nobody can say."""

    def __init__(self) -> None:
        super().__init__(source="*", read_only=True, help_text="When it may start; null: not known.")

    def to_representation(self, row: Any) -> Any:
        is_known = row.state == State.QUEUED and row.earliest_start is not None
        return EstimateOutput(row).data if is_known else None


class JobOutput(WorkloadOutput):
    tasks = serializers.IntegerField(source="tasks_count")
    preemptible = serializers.BooleanField()
    time_limit_s = serializers.IntegerField(allow_null=True)
    max_retries = serializers.IntegerField()
    same_node = serializers.BooleanField()
    spread = serializers.BooleanField()
    node_labels = serializers.ListField(child=serializers.CharField())
    estimate = EstimateField()
    lent_by = serializers.SerializerMethodField(help_text="Lending rule by which it runs on another pool's cards.")
    saved_at = serializers.SerializerMethodField(help_text="Last checkpoint that it reported.")

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_lent_by(self, row: Any) -> str | None:
        held = next(iter(latest_tasks(row)), None)
        return held.allocation.lent_by.name if held and held.allocation.lent_by else None

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_saved_at(self, row: Any) -> Any:
        return serializers.DateTimeField().to_representation(row.latest[0].saved_at) if row.latest else None


class EnvironmentOutput(WorkloadOutput):
    url = serializers.SerializerMethodField()
    idle_timeout_s = serializers.IntegerField(allow_null=True)
    lifetime_s = serializers.IntegerField(source="time_limit_s", allow_null=True)

    def get_url(self, row: Any) -> str:
        return url_of(row.uid)


class QueueOutput(Output):
    id = serializers.CharField(source="uid")
    kind = serializers.ChoiceField(KINDS)
    name = serializers.CharField()
    group = serializers.CharField(source="group.name")
    user = serializers.CharField(source="user.username")
    pool = serializers.CharField(source="pool.name")
    state = serializers.ChoiceField(("queued", "held"))
    priority = serializers.IntegerField()
    position = serializers.SerializerMethodField(help_text="In its pool; 1 is next; null: held.")
    reasons = PendingReasonOutput(many=True, source="pending_reasons")
    estimate = EstimateField()
    queued_at = serializers.DateTimeField()

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_position(self, row: Any) -> int | None:
        positions: dict[int, int] = self.context.get("positions", {})
        return positions.get(row.pk)


class EventOutput(Output):
    at = serializers.DateTimeField()
    attempt = serializers.IntegerField()
    event = serializers.ChoiceField([event.value for event in Event])
    from_state = serializers.CharField(allow_blank=True)
    to_state = serializers.ChoiceField(STATES)
    reason = serializers.CharField(allow_blank=True)
    actor = serializers.CharField()
    message = serializers.CharField(allow_blank=True)


class PlannedGrantOutput(Output):
    uuid = serializers.CharField(source="device_id")
    memory_mib = serializers.IntegerField()
    compute_milli = serializers.IntegerField()


class PlannedTaskOutput(Output):
    rank = serializers.IntegerField()
    node = serializers.CharField(source="node_id")
    gpus = PlannedGrantOutput(many=True, source="shares")


class DryRunOutput(Output):
    starts_now = serializers.BooleanField()
    queue_position = serializers.IntegerField(source="position", allow_null=True)
    pending_reasons = PendingReasonOutput(many=True, source="reasons")
    tasks = PlannedTaskOutput(many=True)
    lent_by = serializers.CharField(allow_null=True, help_text="Lending rule that it would use.")
    earliest = serializers.DateTimeField(allow_null=True)
    latest = serializers.DateTimeField(allow_null=True)
    preempts = serializers.IntegerField(help_text="Running jobs that would be asked to make room.")
