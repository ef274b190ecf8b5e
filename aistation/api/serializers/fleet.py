"""Pools, nodes, cards."""

from typing import Any

from rest_framework import serializers

from aistation.api.fields import Choice, Flag, Input, Integer, Output, Text
from aistation.fleet.selectors import unavailable_because
from scheduler.model import Kind, Strategy, TakeBack
from scheduler.windows import format_minute, parse_window

KINDS = tuple(kind.value for kind in Kind)
STRATEGIES = tuple(strategy.value for strategy in Strategy)
TAKE_BACKS = tuple(way.value for way in TakeBack)
NODE_STATES = ("ready", "cordoned", "draining", "suspect", "lost", "maintenance")


class PoolChangeInput(Input):
    kinds = serializers.ListField(child=Choice(KINDS), required=False, allow_empty=False, max_length=len(KINDS))
    slices_per_gpu = Integer(0, 64, required=False, help_text="0: cards are uncut.")
    gpu_reserve_mib = Integer(0, 1 << 20, required=False)
    cpu_overcommit_percent = Integer(100, 1000, required=False)
    strategy = Choice(STRATEGIES, required=False)
    priority_gap = Integer(
        1, 100, required=False, allow_null=True, help_text="Work preempts what is this much lower; null: never."
    )
    min_run_s = Integer(0, 604_800, required=False, help_text="Before work may be preempted.")


class PoolInput(PoolChangeInput):
    name = Text(63)
    kinds = serializers.ListField(child=Choice(KINDS), allow_empty=False, max_length=len(KINDS))


class PoolOutput(Output):
    name = serializers.CharField()
    kinds = serializers.ListField(child=serializers.ChoiceField(KINDS))
    slices_per_gpu = serializers.IntegerField()
    gpu_reserve_mib = serializers.IntegerField()
    cpu_overcommit_percent = serializers.IntegerField()
    strategy = serializers.ChoiceField(STRATEGIES)
    priority_gap = serializers.IntegerField(allow_null=True)
    min_run_s = serializers.IntegerField()
    created_at = serializers.DateTimeField()


class WindowInput(Input):
    """A weekly span of local time, such as Fri 20:00 to Mon 08:00."""

    start = Text(10)
    end = Text(10)

    def validate(self, attrs: Any) -> tuple[int, int]:
        try:
            window = parse_window(attrs["start"], attrs["end"])
        except ValueError as error:
            raise serializers.ValidationError({"start": str(error)}) from error
        return window.start, window.end


class WindowOutput(Output):
    start = serializers.SerializerMethodField()
    end = serializers.SerializerMethodField()

    def get_start(self, pair: Any) -> str:
        return format_minute(pair[0])

    def get_end(self, pair: Any) -> str:
        return format_minute(pair[1])


class LendingChangeInput(Input):
    windows = WindowInput(many=True, required=False, help_text="None: at any time.")
    time_zone = Text(64, required=False)
    keep_free_slices = Integer(required=False)
    keep_free_cards = Integer(required=False)
    notice_s = Integer(0, 86_400, required=False)
    take_back = Choice(TAKE_BACKS, required=False)
    enabled = Flag(required=False)


class LendingInput(LendingChangeInput):
    name = Text(63)
    lender = Text(63)
    borrower = Text(63)


class LendingOutput(Output):
    name = serializers.CharField()
    lender = serializers.CharField(source="lender.name")
    borrower = serializers.CharField(source="borrower.name")
    windows = WindowOutput(many=True)
    time_zone = serializers.CharField()
    keep_free_slices = serializers.IntegerField()
    keep_free_cards = serializers.IntegerField()
    notice_s = serializers.IntegerField()
    take_back = serializers.ChoiceField(TAKE_BACKS)
    enabled = serializers.BooleanField()
    created_at = serializers.DateTimeField()


class ReserveChangeInput(Input):
    slices = Integer(1, required=False)
    windows = WindowInput(many=True, required=False, help_text="None: always.")
    time_zone = Text(64, required=False)


class ReserveInput(ReserveChangeInput):
    name = Text(63)
    pool = Text(63)
    slices = Integer(1)


class ReserveOutput(Output):
    name = serializers.CharField()
    pool = serializers.CharField(source="pool.name")
    slices = serializers.IntegerField(help_text="Of environments, in use or free.")
    windows = WindowOutput(many=True)
    time_zone = serializers.CharField()
    created_at = serializers.DateTimeField()


class LabelsInput(Input):
    labels = serializers.ListField(child=Text(127), max_length=32, help_text="key=value")


class GpuOutput(Output):
    uuid = serializers.CharField()
    node = serializers.CharField(source="node.name")
    pool = serializers.CharField(source="node.pool.name")
    model = serializers.CharField()
    memory_mib = serializers.IntegerField(allow_null=True, help_text="As reported; null: unknown.")
    memory_taken_mib = serializers.IntegerField()
    taken_milli = serializers.IntegerField(help_text="1000: all of it.")
    usable = serializers.BooleanField()
    healthy = serializers.BooleanField()
    present = serializers.BooleanField()
    reason = serializers.CharField()
    simulated = serializers.BooleanField()
    memory_used_mib = serializers.IntegerField(allow_null=True)
    utilisation_percent = serializers.IntegerField(allow_null=True)
    temperature_c = serializers.IntegerField(allow_null=True)
    power_mw = serializers.IntegerField(allow_null=True)
    seen_at = serializers.DateTimeField()


class NodeOutput(Output):
    name = serializers.CharField()
    pool = serializers.CharField(source="pool.name")
    state = serializers.ChoiceField(NODE_STATES)
    message = serializers.SerializerMethodField(help_text="Why nothing new starts here; empty when it may.")
    address = serializers.CharField()
    runtime = serializers.CharField()
    runtime_version = serializers.CharField()
    runtime_error = serializers.CharField()
    devices_error = serializers.CharField()
    agent_version = serializers.CharField()
    simulated = serializers.BooleanField()
    labels = serializers.ListField(child=serializers.CharField())
    cpu_milli = serializers.IntegerField(help_text="What may be given out.")
    cpu_taken_milli = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    memory_taken_mib = serializers.IntegerField()
    disk_used_percent = serializers.IntegerField(allow_null=True)
    gpus = serializers.SerializerMethodField()
    gpus_free = serializers.SerializerMethodField(help_text="Usable cards of which nothing is taken.")
    enrolled_at = serializers.DateTimeField()
    last_heartbeat_at = serializers.DateTimeField(allow_null=True)

    def get_message(self, node: Any) -> str:
        return unavailable_because(node)

    def get_gpus(self, node: Any) -> int:
        return len(node.devices.all())

    def get_gpus_free(self, node: Any) -> int:
        return sum(card.usable and not card.taken_milli and not card.memory_taken_mib for card in node.devices.all())


class JoinTokenInput(Input):
    pool = Text(63)
    expires_in_s = Integer(1, 30 * 24 * 3600, default=24 * 3600)


class JoinTokenOutput(Output):
    id = serializers.IntegerField()
    pool = serializers.CharField(source="pool.name")
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    used_at = serializers.DateTimeField(allow_null=True)
    node = serializers.CharField(source="node.name", allow_null=True, default=None)


class NewJoinTokenOutput(JoinTokenOutput):
    token = serializers.CharField(help_text="The secret. It is shown this once and lets one machine join, once.")
