"""Wire types of ``/agent/v1/``.

Every body is one of these messages as JSON. Rules that keep old and new peers talking:
fields are only added, with defaults; unknown fields are ignored; an unknown phase or error code
becomes ``unknown``. Golden files of every released version are in ``tests/agentapi/golden``.

Units: memory in MiB, CPU in millicores, GPU compute in thousandths of a card, durations in seconds,
instants in UTC.

Endpoints (all POST but the last two; all but ``enrol`` need ``Authorization: Bearer <node token>``):

=======================  ====================  =====================
path                     request               answer
=======================  ====================  =====================
``/agent/v1/enrol``      EnrolRequest          EnrolReply
``/agent/v1/heartbeat``  Heartbeat             HeartbeatReply
``/agent/v1/report``     Report                ReportReply
``/agent/v1/logs``       LogBatch              LogReply
``/agent/v1/desired``    (GET)                 Desired
``/agent/v1/wake``       (WebSocket)           ``{"version": n}`` each time the node's desired state changed
=======================  ====================  =====================

Errors are RFC 9457 problems with ``code``; the agent acts on three of them: ``node_identity_in_use``
(409: another agent runs under this identity), ``unauthenticated`` (401: the node was removed), and
``protocol_unsupported`` (400: update the agent).
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field

PROTOCOL: Final = 1
MAX_LOG_CHUNK: Final = 256 * 1024  # bytes of one LogChunk
MAX_LOG_BATCH: Final = 1024 * 1024  # bytes of all chunks of one LogBatch


class Message(BaseModel):
    """Base of all wire types: immutable, and deaf to what a newer peer adds."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class OpenEnum(StrEnum):
    """A string enum that reads a value it does not know as its member ``UNKNOWN``."""

    @classmethod
    def _missing_(cls, value: object) -> "OpenEnum":
        return cls("unknown")


class ContainerPhase(OpenEnum):
    """How far one task's container has come on its node. Only ever moves down this list."""

    UNKNOWN = "unknown"  # a newer peer said something else: read as "no news"
    PULLING = "pulling"  # the image is being fetched or prepared
    STARTING = "starting"  # container created, process not yet started
    RUNNING = "running"
    PAUSED = "paused"  # somebody paused it behind our back; still holds its resources
    EXITED = "exited"  # the process ended; exit_code says how. Holds no CPU, memory or GPU any more
    FAILED = "failed"  # never started: error says why
    GONE = "gone"  # was stopped on the server's order, or vanished; nothing of it runs on the node


class ErrorCode(OpenEnum):
    """Why a task could not be started, or ended without its own exit code."""

    UNKNOWN = "unknown"
    IMAGE_PULL = "image_pull"  # image missing or registry refused
    IMAGE_UNFIT = "image_unfit"  # the image cannot run here (e.g. no such command)
    BAD_SPEC = "bad_spec"  # the engine refused the container's settings
    DEVICE_MISSING = "device_missing"  # a GPU of the allocation is not on this node
    MOUNT = "mount"  # a folder could not be mounted
    RUNTIME = "runtime"  # the engine failed or is not reachable
    CONTAINER_LOST = "container_lost"  # removed behind the platform's back
    NODE_INTERRUPTED = "node_interrupted"  # the host rebooted or the engine was restarted under it


class Stream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class RuntimeName(OpenEnum):
    UNKNOWN = "unknown"
    DOCKER = "docker"
    PROCESS = "process"  # plain processes of the host: isolates nothing


# --- joining ---------------------------------------------------------------------------------------


class EnrolRequest(Message):
    """Trade a join token, good once, for a credential of this node."""

    protocol: int = PROTOCOL
    join_token: str
    node_name: Annotated[str, Field(min_length=1, max_length=63)]
    agent_version: str
    fingerprint: str  # see Heartbeat.fingerprint


class EnrolReply(Message):
    node_name: str
    node_token: str  # shown once, stored hashed by the server


# --- heartbeat -------------------------------------------------------------------------------------


class DeviceInfo(Message):
    """One GPU as its driver describes it. What a card does not report is None, never 0."""

    uuid: str
    model: str
    memory_mib: int | None  # total; None: unknown, so the card is offered to nobody
    memory_used_mib: int | None = None
    utilisation_percent: int | None = None
    temperature_c: int | None = None
    power_mw: int | None = None
    healthy: bool = True
    reason: str = ""  # why a value is missing or the card unhealthy, for people
    simulated: bool = False


class Inventory(Message):
    """What the node has and how it is. Sent whole with each heartbeat."""

    hostname: str
    cpu_milli: int
    memory_mib: int
    devices: tuple[DeviceInfo, ...] = ()
    devices_error: str = ""  # e.g. "NVML: Driver/library version mismatch"; the node then has no usable card
    runtime: RuntimeName
    runtime_error: str = ""  # not empty: the engine does not answer, so nothing new may be placed here
    runtime_version: str = ""
    disk_used_percent: int | None = None  # of the file system that holds containers and logs
    simulated: bool = False


class Heartbeat(Message):
    protocol: int = PROTOCOL
    fingerprint: str  # machine, host name and state directory: equal after a restart, other on a clone
    boot_id: str  # the kernel's; changes when the machine reboots
    agent_version: str
    address: str  # host or IP at which the gateway reaches published ports of this node
    inventory: Inventory


class HeartbeatReply(Message):
    interval_s: int = 5
    version: int = 0  # of the desired state; fetch it when it is not the one you hold


# --- desired state ---------------------------------------------------------------------------------


class DeviceShare(Message):
    """Part of one card. ``compute_milli`` 1000 with all of the memory is the whole card."""

    uuid: str
    memory_mib: int
    compute_milli: int
    whole: bool = False


class Mount(Message):
    """A folder below the node's data root, at a path inside the container."""

    source: str  # relative to the data root; never absolute, never with ".."
    target: str  # absolute path in the container
    read_only: bool = False


class TaskSpec(Message):
    """One container that should exist on this node, or, with ``stop``, should end now.

    ``task_id`` names one task of one attempt; it is never used twice. ``nonce`` is a secret that only
    the server and the container's labels hold: a container is ours when both match.
    """

    task_id: str
    nonce: str
    workload_id: str
    workload_name: str
    kind: str  # "job" or "environment"
    attempt: int
    rank: int = 0
    tasks: int = 1
    image: str  # catalogue name
    reference: str  # what the runtime is asked for: an image reference, or for processes a recipe's name
    command: tuple[str, ...] = ()  # empty: the image's own
    env: dict[str, str] = {}
    cpu_milli: int
    memory_mib: int
    devices: tuple[DeviceShare, ...] = ()
    mounts: tuple[Mount, ...] = ()
    port: int | None = None  # port inside the container that the gateway must reach
    stop: bool = False
    stop_reason: str = ""  # why, for the task to read: "preempted", "reclaimed", "user_stopped", ...
    grace_s: int = 10  # between SIGTERM and SIGKILL
    log_limit_bytes: int = 1 << 30  # of both streams together; what comes after is dropped and marked


class Desired(Message):
    version: int
    tasks: tuple[TaskSpec, ...] = ()


# --- reports ---------------------------------------------------------------------------------------


class TaskReport(Message):
    """The present state of one task. Complete in itself: sending it twice, late or alone is harmless."""

    task_id: str
    nonce: str
    phase: ContainerPhase
    exit_code: int | None = None  # 0..255; 128+n when signal n ended it
    oom_killed: bool = False  # the kernel killed a process of it for memory, whatever the exit code says
    error: ErrorCode | None = None
    message: str = ""  # for people; never holds the environment or the command
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = ""
    host_port: int | None = None  # where ``port`` is reachable on the node's address
    log_bytes: int | None = None  # with EXITED, FAILED or GONE: total length of the log, so that a gap shows
    log_truncated: bool = False


class ForeignContainer(Message):
    """A container that carries our labels but belongs to no task of the desired state, or has another nonce."""

    task_id: str
    nonce: str
    container_id: str


class Report(Message):
    protocol: int = PROTOCOL
    fingerprint: str
    version: int  # of the desired state that the agent holds
    tasks: tuple[TaskReport, ...] = ()
    foreign: tuple[ForeignContainer, ...] = ()


class ReportReply(Message):
    """``settled``: tasks whose end the server has stored: the agent may remove the container and its files.

    ``remove``: tasks whose foreign container in this report the server knows (nonce matches) and has finished
    with. A report names at most one foreign container per task, so that the answer is not ambiguous.
    ``desired``: the desired state when it is newer than ``Report.version``, to save a round trip.
    """

    settled: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    desired: Desired | None = None


# --- logs ------------------------------------------------------------------------------------------


class LogChunk(Message):
    """Bytes ``offset`` to ``offset + len(data)`` of one task's log; both streams share the offsets.

    The agent numbers the bytes of both streams in the order in which it saw them. Sending a chunk again is
    harmless; one that starts behind the end that the server holds is refused (see LogReply).
    """

    task_id: str
    nonce: str
    stream: Stream
    offset: int
    data: Base64Bytes


class LogBatch(Message):
    protocol: int = PROTOCOL
    chunks: tuple[LogChunk, ...]


class LogReply(Message):
    """The length of each task's log that the server holds now; the agent goes on from there.

    A task that is missing here is unknown to the server: drop its log.
    """

    stored: dict[str, int] = {}
