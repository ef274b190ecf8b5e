"""Between the wire's messages and the values of fleet and workloads.

What agents send is checked here for what a column can hold: a number out of range becomes None where the wire knows
None, else it is refused by its field's name; text loses NUL and what is too long.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from django.conf import settings

from agentapi.v1 import (
    ContainerPhase,
    DeviceInfo,
    DeviceShare,
    ErrorCode,
    Heartbeat,
    LogChunk,
    Mount,
    TaskReport,
    TaskSpec,
)
from aistation.core.errors import FieldError, InvalidInputError
from aistation.fleet.services import DeviceFacts, NodeFacts
from aistation.workloads.lifecycle import Phase, Reason
from aistation.workloads.logs import Chunk
from aistation.workloads.reports import TaskFacts
from aistation.workloads.selectors import DesiredTask

PHASES: Final[Mapping[ContainerPhase, Phase | None]] = {
    ContainerPhase.UNKNOWN: None,
    ContainerPhase.PULLING: Phase.PULLING,
    ContainerPhase.STARTING: Phase.STARTING,
    ContainerPhase.RUNNING: Phase.RUNNING,
    ContainerPhase.PAUSED: Phase.PAUSED,
    ContainerPhase.EXITED: Phase.EXITED,
    ContainerPhase.FAILED: Phase.FAILED,
    ContainerPhase.GONE: Phase.GONE,
}
"""None: a newer agent said something that this server does not know, which is no news."""

MOST_CPU_MILLI: Final = 10**8
MOST_MEMORY_MIB: Final = 1 << 31
MOST_DEVICES: Final = 256
_INT: Final = (1 << 31) - 1
_BIGINT: Final = (1 << 62) - 1
_OLDEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
_NEWEST: Final = datetime(2200, 1, 1, tzinfo=UTC)
_SAVES_FIRST: Final = (Reason.PREEMPTED, Reason.RECLAIMED)
_ID: Final = re.compile(r"[!-~]{1,64}")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def is_id(value: str) -> bool:
    """Could this be a task's id or nonce? Anything else names no task."""
    return _ID.fullmatch(value) is not None


# --- from the agent ----------------------------------------------------------------------------------


def node_facts(beat: Heartbeat) -> NodeFacts:
    """Raises InvalidInputError when the node's capacity makes no sense or there are too many cards."""
    has = beat.inventory
    _require("inventory.cpu_milli", has.cpu_milli, MOST_CPU_MILLI)
    _require("inventory.memory_mib", has.memory_mib, MOST_MEMORY_MIB)
    _require("inventory.devices", len(has.devices), MOST_DEVICES)
    for index, card in enumerate(has.devices):
        if not (_ID.fullmatch(card.uuid) and card.model):
            error = FieldError(f"inventory.devices.{index}.uuid", "bad_uuid", "A card has a UUID and a model.")
            raise InvalidInputError("The inventory cannot be taken in.", errors=[error])
    return NodeFacts(
        fingerprint=text(beat.fingerprint, 128),
        boot_id=text(beat.boot_id, 64),
        agent_version=text(beat.agent_version, 32),
        address=text(beat.address, 255),
        cpu_milli=has.cpu_milli,
        memory_mib=has.memory_mib,
        runtime=has.runtime.value,
        runtime_version=text(has.runtime_version, 64),
        runtime_error=text(has.runtime_error, 500),
        devices=tuple(device_facts(card) for card in has.devices),
        devices_error=text(has.devices_error, 500),
        disk_used_percent=_number(has.disk_used_percent, 0, 100),
        simulated=has.simulated,
    )


def device_facts(card: DeviceInfo) -> DeviceFacts:
    return DeviceFacts(
        uuid=card.uuid,
        model=text(card.model, 128),
        memory_mib=_number(card.memory_mib, 1, _INT),
        memory_used_mib=_number(card.memory_used_mib, 0, _INT),
        utilisation_percent=_number(card.utilisation_percent, 0, 100),
        temperature_c=_number(card.temperature_c, -273, 1000),
        power_mw=_number(card.power_mw, 0, _INT),
        healthy=card.healthy,
        reason=text(card.reason, 500),
        simulated=card.simulated,
    )


def task_facts(report: TaskReport) -> TaskFacts | None:
    """None: no news, or of no task that could be ours."""
    phase = PHASES[report.phase]
    if phase is None or not (is_id(report.task_id) and is_id(report.nonce)):
        return None
    return TaskFacts(
        task_uid=report.task_id,
        nonce=report.nonce,
        phase=phase.value,
        exit_code=_number(report.exit_code, 0, 255),
        oom_killed=report.oom_killed,
        error=error_code(report.error),
        message=text(report.message, 1000),
        started_at=_instant(report.started_at),
        finished_at=_instant(report.finished_at),
        container_id=text(report.container_id, 80),
        host_port=_number(report.host_port, 1, 65_535),
        log_bytes=_number(report.log_bytes, 0, _BIGINT),
        log_truncated=report.log_truncated,
    )


def error_code(error: ErrorCode | None) -> str:
    return "" if error is None else error.value


def chunk(wire: LogChunk) -> Chunk | None:
    """None: of no task that could be ours, or at an offset that no log has."""
    if not (is_id(wire.task_id) and is_id(wire.nonce)) or not 0 <= wire.offset <= _BIGINT:
        return None
    return Chunk(wire.task_id, wire.nonce, wire.stream.value, wire.offset, wire.data)


def text(value: str, longest: int) -> str:
    """``value`` as a text column can hold it."""
    return _UNSTORABLE.sub("\ufffd", value)[:longest]


def _number(value: int | None, least: int, most: int) -> int | None:
    return value if value is not None and least <= value <= most else None


def _instant(value: datetime | None) -> datetime | None:
    """Aware, in UTC, and of an age that makes sense; else None."""
    if value is None:
        return None
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return aware.astimezone(UTC) if _OLDEST <= aware <= _NEWEST else None


def _require(field: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        error = FieldError(field, "out_of_range", f"Between 0 and {most} is expected here.")
        raise InvalidInputError("The inventory cannot be taken in.", errors=[error])


# --- to the agent ------------------------------------------------------------------------------------


def task_spec(task: DesiredTask) -> TaskSpec:
    """Raises pydantic's ValidationError when a row holds what the wire cannot carry."""
    return TaskSpec(
        task_id=task.task_uid,
        nonce=task.nonce,
        workload_id=task.workload_uid,
        workload_name=task.workload_name,
        kind=task.kind,
        attempt=task.attempt,
        rank=task.rank,
        tasks=task.tasks,
        image=task.image,
        reference=task.reference,
        command=tuple(task.command),
        env=dict(task.env),
        cpu_milli=task.cpu_milli,
        memory_mib=task.memory_mib,
        devices=tuple(
            DeviceShare(uuid=uuid, memory_mib=memory_mib, compute_milli=milli, whole=whole)
            for uuid, memory_mib, milli, whole in task.shares
        ),
        mounts=tuple(
            Mount(source=mount["source"], target=mount["path"], read_only=mount["mode"] == "ro")
            for mount in task.mounts
        ),
        port=task.port,
        stop=task.stop,
        stop_reason=task.stop_reason,
        grace_s=settings.PREEMPT_GRACE_S if task.stop_reason in _SAVES_FIRST else settings.STOP_GRACE_S,
        log_limit_bytes=task.log_limit_bytes,
    )
