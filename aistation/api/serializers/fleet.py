"""Pools, nodes, cards."""

from typing import Any

from rest_framework import serializers

from aistation.api.fields import Choice, Input, Integer, Output, Text
from aistation.fleet.selectors import unavailable_because
from scheduler.model import Kind, Strategy

KINDS = tuple(kind.value for kind in Kind)
STRATEGIES = tuple(strategy.value for strategy in Strategy)
NODE_STATES = ("ready", "cordoned", "draining", "suspect", "lost", "maintenance")


class PoolChangeInput(Input):
    kinds = serializers.ListField(child=Choice(KINDS), required=False, allow_empty=False, max_length=len(KINDS))
    slices_per_gpu = Integer(0, 64, required=False, help_text="0: cards are uncut.")
    gpu_reserve_mib = Integer(0, 1 << 20, required=False)
    cpu_overcommit_percent = Integer(100, 1000, required=False)
    strategy = Choice(STRATEGIES, required=False)


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
    created_at = serializers.DateTimeField()


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
