"""Quotas: limits that are set, and use beside them."""

from typing import Any

from rest_framework import serializers

from aistation.api.fields import BIGGEST, Input, Integer, Output, Text
from aistation.quotas.selectors import COUNT_NAMES, GUARANTEED_NAMES

BIGGEST_QUANTITY = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""


class QuantityInput(Input):
    """Absent: unchanged. ``limit`` null: unlimited, 0: nothing."""

    ignored = ("used", "free")
    guaranteed = Integer(0, BIGGEST_QUANTITY, required=False)
    limit = Integer(0, BIGGEST_QUANTITY, required=False, allow_null=True)


class QuotaInput(Input):
    """What is absent stays as it is; null takes a limit away; what only answers have is ignored."""

    ignored = ("group", "user", "environments_used", "running_jobs_used", "queued_jobs", "over")
    pool = Text(63, allow_null=True, default=None, help_text="null: over all pools.")
    gpu_milli = QuantityInput(required=False)
    cpu_milli = QuantityInput(required=False)
    memory_mib = QuantityInput(required=False)
    max_environments = Integer(0, BIGGEST, required=False, allow_null=True)
    max_running_jobs = Integer(0, BIGGEST, required=False, allow_null=True)
    max_queued_jobs = Integer(0, BIGGEST, required=False, allow_null=True)
    max_environment_s = Integer(0, BIGGEST, required=False, allow_null=True)
    max_priority = Integer(0, 100, required=False, allow_null=True)
    weight = Integer(1, 1000, required=False, help_text="Of a group in a pool, when groups compete.")


_LIMITED_COUNTS = {"max_environments": "environments", "max_running_jobs": "running_jobs"}


def numbers_of(value: dict[str, Any]) -> dict[str, Any]:
    """The ``limits``, ``guaranteed`` and ``counts`` of a `QuotaChange` from one checked `QuotaInput`."""
    quantities: dict[str, dict[str, Any]] = {name: value[name] for name in GUARANTEED_NAMES if name in value}
    limits = {name: numbers["limit"] for name, numbers in quantities.items() if "limit" in numbers}
    limits |= {name: value[field] for field, name in _LIMITED_COUNTS.items() if field in value}
    return {
        "limits": limits,
        "guaranteed": {name: n["guaranteed"] for name, n in quantities.items() if "guaranteed" in n},
        "counts": {name: value[name] for name in COUNT_NAMES if name in value},
        "weight": value.get("weight"),
    }


class QuantityOutput(Output):
    guaranteed = serializers.IntegerField()
    limit = serializers.IntegerField(allow_null=True, help_text="null: unlimited, 0: nothing.")
    used = serializers.IntegerField(help_text="May be over a limit that was lowered meanwhile.")
    free = serializers.IntegerField(allow_null=True, help_text="Never negative.")


class QuotaOutput(Output):
    group = serializers.CharField()
    user = serializers.CharField(allow_null=True, help_text="null: the whole group.")
    pool = serializers.CharField(allow_null=True, help_text="null: over all pools.")
    gpu_milli = QuantityOutput(source="quantities.gpu_milli", help_text="Card equivalents: a whole card is 1000.")
    cpu_milli = QuantityOutput(source="quantities.cpu_milli")
    memory_mib = QuantityOutput(source="quantities.memory_mib")
    max_environments = serializers.IntegerField(source="quantities.environments.limit", allow_null=True)
    environments_used = serializers.IntegerField(source="quantities.environments.used")
    max_running_jobs = serializers.IntegerField(source="quantities.running_jobs.limit", allow_null=True)
    running_jobs_used = serializers.IntegerField(source="quantities.running_jobs.used")
    max_queued_jobs = serializers.IntegerField(allow_null=True)
    queued_jobs = serializers.IntegerField()
    max_environment_s = serializers.IntegerField(allow_null=True)
    max_priority = serializers.IntegerField(allow_null=True)
    weight = serializers.IntegerField()
    over = serializers.ListField(child=serializers.CharField(), help_text="Quantities above their limit now.")


class UsageOutput(Output):
    """What is held now."""

    group = serializers.CharField(source="group.name")
    user = serializers.CharField(source="user.username", allow_null=True, default=None, help_text="null: all of it.")
    pool = serializers.CharField(source="pool.name", allow_null=True, default=None, help_text="null: over all pools.")
    gpu_milli = serializers.IntegerField(source="gpu_milli_used", help_text="A whole card is 1000.")
    cpu_milli = serializers.IntegerField(source="cpu_milli_used")
    memory_mib = serializers.IntegerField(source="memory_mib_used")
    environments = serializers.IntegerField(source="environments_used")
    running_jobs = serializers.IntegerField(source="running_jobs_used")
