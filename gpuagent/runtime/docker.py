"""Tasks as containers of the Docker Engine. Labels are the memory; docker_profile says how containers are made."""

import contextlib
import logging
import re
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from docker import APIClient
from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException

from agentapi.v1 import ErrorCode, RuntimeName, TaskSpec
from gpuagent.reconcile import ContainerState
from gpuagent.runtime import docker_profile as profile
from gpuagent.runtime.base import Container, Health, Launch, TaskError
from gpuagent.runtime.docker_engine import Engine, EngineEvents, engine_errors
from gpuagent.runtime.docker_images import ImageStore
from gpuagent.runtime.docker_logs import LogPump, open_attachment
from gpuagent.spool import SpoolWriter

log = logging.getLogger(__name__)

_CONFLICT: Final = 409
_EVENTS_TIMEOUT_S: Final = 3.0
_STATES: Final[Mapping[str, ContainerState]] = {
    "created": ContainerState.CREATED,
    "running": ContainerState.RUNNING,
    "restarting": ContainerState.RUNNING,
    "paused": ContainerState.PAUSED,
    "removing": ContainerState.EXITED,
    "exited": ContainerState.EXITED,
    "dead": ContainerState.EXITED,
}
_START_ERRORS: Final[tuple[tuple[str, ErrorCode, str], ...]] = (
    (r"executable file not found|no such file or directory: unknown|permission denied: unknown|exec format error",
     ErrorCode.IMAGE_UNFIT, "the image has no such command, or it cannot be executed"),
    (r"argument list too long", ErrorCode.BAD_SPEC, "the command and the environment are too long for the kernel"),
    (r"bind source path does not exist|invalid mount|mount", ErrorCode.MOUNT, "a folder could not be mounted"),
    (r"could not select device driver|nvidia", ErrorCode.DEVICE_MISSING, "the engine cannot hand in the GPU"),
    (r"port is already allocated|address already in use", ErrorCode.RUNTIME, "no port could be published"),
)  # fmt: skip
_INTERRUPTED_CODES: Final = frozenset({137, 143, 255})  # how containers end when their engine or host goes down


class DockerRuntime:
    """A ContainerRuntime over one engine, found as DOCKER_HOST says."""

    name = RuntimeName.DOCKER

    def __init__(self, node_name: str, address: str, user: str) -> None:
        self._node_name = node_name
        self._address = socket.gethostbyname(address)
        self._user = user
        self._engine = Engine()
        self._images = ImageStore(self._engine)
        self._events = EngineEvents(node_name, lambda _: None)
        self._profile: profile.NodeProfile | None = None
        self._lock = threading.Lock()
        self._pumps: dict[str, LogPump] = {}
        self._known: dict[str, Container] = {}
        self._stopped: set[str] = set()  # containers whose end is our own doing

    def open(self, on_change: Callable[[str | None], None]) -> None:
        self._events = EngineEvents(self._node_name, on_change)
        self._events.start()
        self._events.wait_until_connected(_EVENTS_TIMEOUT_S)

    def close(self) -> None:
        self._events.halt()
        for pump in tuple(self._pumps.values()):
            pump.close()
        self._engine.close()

    def health(self) -> Health:
        try:
            version = self._engine.version()
        except TaskError as error:
            return Health(str(error))
        return Health(version=str(version.get("Version", "")))

    def prepare(self, spec: TaskSpec, cancelled: threading.Event, on_wait: Callable[[], object]) -> None:
        self._images.prepare(spec.reference, cancelled, on_wait)

    def start(self, launch: Launch) -> Container:
        client = self._engine.client()
        node = self._node_profile(client)
        container_id = self._create(client, launch, node)
        try:
            state = self._inspect(client, container_id)
            if state.state == ContainerState.CREATED:
                self._start_created(client, container_id, launch)
            else:
                self.adopt(state, launch.log, launch.spec.log_limit_bytes)
            return self._inspect(client, container_id)
        except TaskError:
            self._discard(client, container_id)
            raise

    def adopt(self, container: Container, log: Path, log_limit_bytes: int) -> None:
        if container.state != ContainerState.CREATED:
            self._pump(self._engine.client(), container.container_id, log, log_limit_bytes)

    def stop(self, container_id: str, grace_s: int) -> None:
        client = self._engine.client()
        self._stopped.add(container_id)
        with engine_errors("stopping the container"), contextlib.suppress(NotFound):
            if client.inspect_container(container_id)["State"]["Paused"]:
                client.unpause(container_id)
            client.stop(container_id, timeout=grace_s)

    def inspect(self, container_id: str) -> Container | None:
        client = self._engine.client()
        with engine_errors("inspecting the container"):
            try:
                facts = client.inspect_container(container_id)
            except NotFound:
                self._known.pop(container_id, None)
                return None
        return self._remember(facts)

    def finish_log(self, container_id: str, timeout_s: float) -> bool:
        pump = self._pumps.get(container_id)
        if pump is None:
            return True
        pump.join(timeout_s)
        return not pump.is_alive()

    def list(self) -> tuple[Container, ...]:
        client = self._engine.client()
        with engine_errors("listing the containers"):
            rows = client.containers(all=True, filters={"label": profile.LABEL_TASK})
        found = (self._refreshed(row) for row in rows)
        return tuple(container for container in found if container is not None)

    def remove(self, container_id: str) -> None:
        client = self._engine.client()
        self._stopped.add(container_id)
        with engine_errors("removing the container"), contextlib.suppress(NotFound):
            client.remove_container(container_id, v=True, force=True)
        with self._lock:
            pump = self._pumps.pop(container_id, None)
        if pump is not None:
            pump.close()
        self._known.pop(container_id, None)
        self._stopped.discard(container_id)
        self._events.forget(container_id)

    # --- creating and starting ---

    def _node_profile(self, client: APIClient) -> profile.NodeProfile:
        """What containers of this node share; makes their network first."""
        if self._profile is None:
            with engine_errors("preparing the network"):
                ensure_network(client)
                cores = int(client.info()["NCPU"])
            self._profile = profile.NodeProfile(
                api_version=client.api_version,
                cores_milli=1000 * cores,
                address=self._address,
                user=self._user,
                name=self._node_name,
            )
        return self._profile

    def _create(self, client: APIClient, launch: Launch, node: profile.NodeProfile) -> str:
        """Create the container, or find the one that an earlier try created."""
        try:
            return str(client.create_container(**profile.create_arguments(launch, node))["Id"])
        except APIError as error:
            if error.status_code == _CONFLICT:
                return self._find_own(client, launch.spec)
            raise _start_error(error) from error
        except (DockerException, RequestException, ValueError, TypeError) as error:
            raise TaskError(ErrorCode.RUNTIME, f"creating the container failed: {type(error).__name__}") from error

    def _find_own(self, client: APIClient, spec: TaskSpec) -> str:
        with engine_errors("finding the container"):
            facts = client.inspect_container(profile.container_name(spec))
        container = self._remember(facts)
        if container is None or (container.task_id, container.nonce) != (spec.task_id, spec.nonce):
            raise TaskError(ErrorCode.RUNTIME, "a container that is not ours has this task's name")
        return container.container_id

    def _start_created(self, client: APIClient, container_id: str, launch: Launch) -> None:
        """Attach first, so that no byte is missed, then start."""
        try:
            attachment = open_attachment(client, container_id)
            self._add_pump(client, container_id, launch.log, launch.spec.log_limit_bytes, attachment)
            client.start(container_id)
        except APIError as error:
            raise _start_error(error) from error
        except (DockerException, RequestException) as error:
            raise TaskError(ErrorCode.RUNTIME, f"starting the container failed: {type(error).__name__}") from error

    def _discard(self, client: APIClient, container_id: str) -> None:
        with contextlib.suppress(TaskError):
            self.remove(container_id)

    # --- logs ---

    def _pump(self, client: APIClient, container_id: str, log: Path, limit: int) -> None:
        with self._lock:
            if container_id in self._pumps:
                return
        self._add_pump(client, container_id, log, limit, None)

    def _add_pump(self, client: APIClient, container_id: str, log: Path, limit: int, attachment: Any) -> None:
        with self._lock:
            spool = SpoolWriter(log, limit)
            pump = LogPump(client, container_id, spool, attachment, lambda: self._events.generation)
            self._pumps[container_id] = pump
            pump.start()

    # --- reading what the engine says ---

    def _inspect(self, client: APIClient, container_id: str) -> Container:
        container = self.inspect(container_id)
        if container is None:
            raise TaskError(ErrorCode.CONTAINER_LOST, "the container vanished while it was started")
        return container

    def _refreshed(self, row: Mapping[str, Any]) -> Container | None:
        """The container of a row of the list, from memory when its state has not changed."""
        known = self._known.get(row["Id"])
        if known is not None and known.state == _STATES.get(row["State"]):
            return known
        return self.inspect(row["Id"])

    def _remember(self, facts: Mapping[str, Any]) -> Container | None:
        container = _container(facts)
        if container is None:
            return None
        if self._events.was_oom_killed(container.container_id):
            container = replace(container, oom_killed=True)
        if self._was_interrupted(container):
            why = "the container engine or the host went down"
            container = replace(container, error=ErrorCode.NODE_INTERRUPTED, message=why)
        self._known[container.container_id] = container
        return container

    def _was_interrupted(self, container: Container) -> bool:
        return (
            container.exit_code in _INTERRUPTED_CODES
            and not container.oom_killed
            and container.container_id not in self._stopped
            and container.finished_at is not None
            and self._events.is_in_outage(container.finished_at)
        )


def ensure_network(client: APIClient) -> None:
    """Make the bridge that all containers of the node share, if it is not there."""
    try:
        client.inspect_network(profile.NETWORK)
    except NotFound:
        client.create_network(
            profile.NETWORK, driver="bridge", options=dict(profile.NETWORK_OPTIONS), check_duplicate=True
        )


def _start_error(error: APIError) -> TaskError:
    """Why a container could not be made or started, without the engine's own words, which quote the command."""
    said = str(error.explanation or "")
    log.debug("the engine refused a container: %s", said)
    for pattern, code, message in _START_ERRORS:
        if re.search(pattern, said):
            return TaskError(code, message)
    status = error.status_code or 0
    if 400 <= status < 500:
        return TaskError(ErrorCode.BAD_SPEC, f"the engine refused the container's settings ({status})")
    return TaskError(ErrorCode.RUNTIME, f"the engine failed to start the container ({status})")


def _container(facts: Mapping[str, Any]) -> Container | None:
    """None when it carries none of our labels."""
    labels, state = facts["Config"].get("Labels") or {}, facts["State"]
    if profile.LABEL_TASK not in labels:
        return None
    is_ended = _STATES.get(state["Status"]) == ContainerState.EXITED
    started_at, finished_at = _instant(state["StartedAt"]), _instant(state["FinishedAt"])
    if is_ended and started_at is not None and finished_at is not None:
        started_at = min(started_at, finished_at)  # the engine notes the start of a short one after its end
    return Container(
        task_id=labels[profile.LABEL_TASK],
        nonce=labels.get(profile.LABEL_NONCE, ""),
        container_id=facts["Id"],
        state=_STATES.get(state["Status"], ContainerState.RUNNING),
        started_at=started_at,
        host_port=None if is_ended else _host_port(facts),
        exit_code=state["ExitCode"] if is_ended else None,
        oom_killed=bool(state["OOMKilled"]),
        finished_at=finished_at if is_ended else None,
    )


def _host_port(facts: Mapping[str, Any]) -> int | None:
    for bindings in (facts["NetworkSettings"].get("Ports") or {}).values():
        for binding in bindings or ():
            return int(binding["HostPort"])
    return None


def _instant(text: str) -> datetime | None:
    """The engine's nanoseconds are cut to microseconds; its zero time means never."""
    if not text or text.startswith("0001-"):
        return None
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", text).replace("Z", "+00:00"))
