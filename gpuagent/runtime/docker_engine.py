"""The connection to one Docker Engine: clients, errors in our words, and what the engine tells by itself."""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import requests
from docker import APIClient
from docker.errors import APIError, DockerException
from docker.utils import kwargs_from_env
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from agentapi.v1 import ErrorCode
from gpuagent.runtime.base import TaskError
from gpuagent.runtime.docker_profile import LABEL_NODE, LABEL_TASK
from gpuagent.threads import Loop

log = logging.getLogger(__name__)

_CALL_TIMEOUT_S: Final = 60
_QUICK_TIMEOUT_S: Final = 5
_RECONNECT_S: Final = 0.5
_CALLERS: Final = 4  # ends that are noted at the same time
_FILTERS: Final = {
    "type": ["container"],
    "label": [LABEL_TASK],
    "event": ["die", "oom", "destroy", "pause", "unpause"],
}
_SLACK: Final = timedelta(seconds=15)  # an engine that stops ends its containers some seconds before or after


class Engine:
    """Connects when first needed and again after a failure; every thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: APIClient | None = None

    def client(self) -> APIClient:
        """The client for calls that end. TaskError when there is no engine."""
        with self._lock:
            if self._client is None:
                with engine_errors("reaching the engine"):
                    self._client = new_client(_CALL_TIMEOUT_S)
            return self._client

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()

    def version(self) -> dict[str, Any]:
        """Quick, with a connection of its own. TaskError when the engine does not answer."""
        with engine_errors("reaching the engine"):
            client = new_client(_QUICK_TIMEOUT_S)
            try:
                answer: dict[str, Any] = client.version()
            finally:
                client.close()
            return answer


def new_client(timeout_s: int) -> APIClient:
    """A connection as the environment says (DOCKER_HOST and friends), in the newest version that both know."""
    return APIClient(version="auto", timeout=timeout_s, **kwargs_from_env())


def open_stream(client: APIClient, method: str, path: str, **params: str | int) -> requests.Response:
    """An answer that goes on for as long as there is something to say; ``end_stream`` ends it from any thread.

    The SDK's own streams neither tell stdout from stderr in logs nor let go of their sockets.
    """
    response = client.request(
        method, f"{client.base_url}/v{client.api_version}{path}", params=params, stream=True, timeout=None
    )
    if response.status_code != requests.codes.ok:
        response.close()
        raise APIError(f"{path} was refused", response=response)
    return response


def end_stream(response: requests.Response) -> None:
    """Let whoever reads the stream find its end at once."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        response.raw.shutdown()


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn whatever the SDK raises into a TaskError without details, which may hold a command or variables."""
    try:
        yield
    except APIError as error:
        status = error.status_code or 0
        raise TaskError(ErrorCode.RUNTIME, f"{doing} failed: the engine answered {status}") from error
    except (DockerException, RequestException, HTTPError, OSError) as error:
        raise TaskError(ErrorCode.RUNTIME, f"{doing} failed: {type(error).__name__}") from error


class EngineEvents(Loop):
    """Follows the engine's events. Its stream ends quietly with the engine; each new one starts with a full look.

    ``generation`` counts the times that the stream was lost.
    """

    def __init__(self, node_name: str, on_change: Callable[[str | None], None]) -> None:
        super().__init__("engine events")
        self._node_name = node_name
        self._on_change = on_change
        self._callers = ThreadPoolExecutor(_CALLERS, thread_name_prefix="engine event")
        self._oom_killed: set[str] = set()
        self._outage: tuple[datetime, datetime | None] | None = None
        self._connected = threading.Event()
        self._stream: requests.Response | None = None
        self.generation = 0

    def wait_until_connected(self, timeout_s: float) -> bool:
        return self._connected.wait(timeout_s)

    def was_oom_killed(self, container_id: str) -> bool:
        """True when the kernel killed a process in it while this agent watched."""
        return container_id in self._oom_killed

    def forget(self, container_id: str) -> None:
        self._oom_killed.discard(container_id)

    def is_in_outage(self, instant: datetime) -> bool:
        """True when the engine was, or went, away at that time."""
        if self._outage is None:
            return False
        lost, found = self._outage
        return lost - _SLACK <= instant and (found is None or instant <= found + _SLACK)

    def step(self) -> float:
        try:
            client = new_client(_CALL_TIMEOUT_S)
        except (DockerException, RequestException, OSError):
            self.note_alive()
            return _RECONNECT_S
        try:
            with open_stream(client, "GET", "/events", filters=json.dumps(_FILTERS)) as events:
                self._stream = events
                self._follow(events)
        except (DockerException, RequestException, HTTPError, OSError, ValueError) as error:
            log.debug("the engine's events were lost: %s", type(error).__name__)
        finally:
            client.close()
        if not self.is_halted:
            self.generation += 1
            self._outage = (_now(), None)
            self._connected.clear()
        return _RECONNECT_S

    def halt(self) -> None:
        super().halt()
        if self._stream is not None:
            end_stream(self._stream)
        self._callers.shutdown(wait=False, cancel_futures=True)

    def _follow(self, events: requests.Response) -> None:
        if self._outage is not None:
            self._outage = (self._outage[0], _now())
        self._connected.set()
        self._tell(None)
        for line in events.iter_lines(chunk_size=None):
            self.note_alive()
            event = json.loads(line)
            if self._is_of_another_node(event):
                continue
            container_id = event.get("id", "")
            if event.get("status") == "oom":
                self._oom_killed.add(container_id)
            self._tell(container_id)

    def _is_of_another_node(self, event: Mapping[str, Any]) -> bool:
        """The regular look reports such a container; its every change is another agent's to see."""
        labels = event.get("Actor", {}).get("Attributes", {})
        return bool(labels.get(LABEL_NODE, self._node_name) != self._node_name)

    def _tell(self, container_id: str | None) -> None:
        if not self.is_halted:
            self._callers.submit(self._note, container_id)

    def _note(self, container_id: str | None) -> None:
        try:
            self._on_change(container_id)
        except TaskError as error:
            log.debug("a change could not be looked at: %s", error)
        except Exception:
            log.exception("noting a change failed")


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)
