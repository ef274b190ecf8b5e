"""The agent's side of ``/agent/v1/``. Every call has a deadline; answers are bounded and checked."""

import threading
import time
from typing import Final, TypeVar

import requests
from pydantic import ValidationError

from agentapi.v1 import (
    Desired,
    EnrolReply,
    EnrolRequest,
    Heartbeat,
    HeartbeatReply,
    LogBatch,
    LogReply,
    Message,
    Report,
    ReportReply,
)

M = TypeVar("M", bound=Message)

_CONNECT_TIMEOUT_S: Final = 3.05
_SILENCE_TIMEOUT_S: Final = 5.0  # between two pieces of an answer
_ANSWER_TIMEOUT_S: Final = 15.0  # for all of it
_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024

NODE_IDENTITY_IN_USE: Final = "node_identity_in_use"
UNAUTHENTICATED: Final = "unauthenticated"
PROTOCOL_UNSUPPORTED: Final = "protocol_unsupported"


class ServerError(Exception):
    """The server could not be asked, or gave no usable answer. Trying again later may help."""


class RefusedError(ServerError):
    """The server answered with a problem; ``code`` says which."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}"[:500])
        self.status = status
        self.code = code


class Client:
    """Typed calls to one server. Safe to use from many threads: each has a connection of its own."""

    def __init__(self, server: str) -> None:
        self._base = server.rstrip("/") + "/agent/v1/"
        self._local = threading.local()
        self.node_token = ""

    def enrol(self, request: EnrolRequest) -> EnrolReply:
        return self._call("POST", "enrol", request, EnrolReply)

    def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatReply:
        return self._call("POST", "heartbeat", heartbeat, HeartbeatReply)

    def desired(self) -> Desired:
        return self._call("GET", "desired", None, Desired)

    def report(self, report: Report) -> ReportReply:
        return self._call("POST", "report", report, ReportReply)

    def send_logs(self, batch: LogBatch) -> LogReply:
        return self._call("POST", "logs", batch, LogReply)

    def _call(self, method: str, path: str, body: Message | None, reply: type[M]) -> M:
        headers = {"Content-Type": "application/json"}
        if self.node_token:
            headers["Authorization"] = f"Bearer {self.node_token}"
        try:
            with self._session().request(
                method,
                self._base + path,
                data=None if body is None else body.model_dump_json().encode(),
                headers=headers,
                timeout=(_CONNECT_TIMEOUT_S, _SILENCE_TIMEOUT_S),
                allow_redirects=False,
                stream=True,
            ) as response:
                content = _read(response)
                status = response.status_code
        except (requests.RequestException, OSError) as error:
            raise ServerError(f"{path}: {type(error).__name__}") from error
        if status != requests.codes.ok:
            raise _problem(status, content)
        try:
            return reply.model_validate_json(content)
        except ValidationError as error:
            raise ServerError(f"{path}: the answer is not a {reply.__name__}") from error

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = requests.Session()
        return session


def _read(response: requests.Response) -> bytes:
    """The whole answer, unless it trickles in too slowly or has no end."""
    deadline = time.monotonic() + _ANSWER_TIMEOUT_S
    pieces: list[bytes] = []
    size = 0
    for piece in response.iter_content(64 * 1024):
        size += len(piece)
        if size > _MAX_ANSWER_BYTES:
            raise ServerError("the answer is too long")
        if time.monotonic() > deadline:
            raise ServerError("the answer came too slowly")
        pieces.append(piece)
    return b"".join(pieces)


class _Problem(Message):
    code: str = ""
    detail: str = ""
    title: str = ""


def _problem(status: int, content: bytes) -> RefusedError:
    try:
        problem = _Problem.model_validate_json(content)
    except ValidationError:
        problem = _Problem()
    code = problem.code or (UNAUTHENTICATED if status == requests.codes.unauthorized else "unknown")
    return RefusedError(status, code, problem.detail or problem.title)
