"""A small control plane that speaks the agents' wire for real: HTTP and WebSocket on one port, state in memory.

Written against agentapi alone. Tests change what it wants (``want``, ``stop``), make it fail (``failing``), stop and
start it again on the same port, and read what agents told it.
"""

import base64
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentapi import v1

JOIN_TOKEN = "join-me"
NODE_TOKEN = "node-token-1"
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
ENDED = {v1.ContainerPhase.EXITED, v1.ContainerPhase.FAILED, v1.ContainerPhase.GONE}


class ControlPlane:
    """State of the server; survives ``go_away`` and ``come_back``."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.tasks: dict[str, v1.TaskSpec] = {}
        self.version = 1
        self.logs: dict[str, bytearray] = {}
        self.streams: dict[str, dict[v1.Stream, bytearray]] = {}
        self.reports: dict[str, list[tuple[float, v1.TaskReport]]] = {}
        self.foreign: list[v1.ForeignContainer] = []
        self.heartbeats: list[tuple[float, v1.Heartbeat]] = []
        self.log_chunks_ahead = 0
        self.remove: set[str] = set()
        self.is_settling = True
        self.is_answering_desired = False  # send the desired state with the report's answer
        self.fingerprint: str | None = None  # of the agent that holds the identity
        self.failing: Callable[[str], tuple[int, bytes] | None] = lambda path: None
        self.port = _free_port()
        self._http: _Server | None = None
        self.come_back()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def come_back(self) -> None:
        self._http = _Server(("127.0.0.1", self.port), self)
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def go_away(self) -> None:
        assert self._http is not None
        self._http.shutdown()
        self._http.server_close()
        self._http.cut_connections()
        self._http = None

    def want(self, *specs: v1.TaskSpec) -> None:
        with self.lock:
            for spec in specs:
                self.tasks[spec.task_id] = spec
            self.bump()

    def stop(self, *task_ids: str) -> None:
        with self.lock:
            for task_id in task_ids:
                self.tasks[task_id] = self.tasks[task_id].model_copy(update={"stop": True})
            self.bump()

    def abandon(self, *task_ids: str) -> None:
        """Drop tasks from the desired state without a word."""
        with self.lock:
            for task_id in task_ids:
                del self.tasks[task_id]
            self.bump()

    def bump(self) -> None:
        self.version += 1
        if self._http is not None:
            self._http.wake(self.version)

    def last(self, task_id: str) -> v1.TaskReport | None:
        with self.lock:
            reports = self.reports.get(task_id)
            return reports[-1][1] if reports else None

    def phase(self, task_id: str) -> str:
        report = self.last(task_id)
        return report.phase if report else ""

    def is_ended(self, task_id: str) -> bool:
        return self.phase(task_id) in ENDED

    def when(self, task_id: str, phase: v1.ContainerPhase) -> float:
        """The monotonic instant of the first report with this phase."""
        with self.lock:
            return next(at for at, report in self.reports[task_id] if report.phase == phase)

    def log(self, task_id: str) -> bytes:
        with self.lock:
            return bytes(self.logs.get(task_id, b""))

    def stream(self, task_id: str, stream: v1.Stream) -> bytes:
        with self.lock:
            return bytes(self.streams.get(task_id, {}).get(stream, b""))

    # --- the endpoints ---

    def enrol(self, request: v1.EnrolRequest) -> v1.EnrolReply:
        if request.join_token != JOIN_TOKEN:
            raise RefusedError(401, "unauthenticated")
        return v1.EnrolReply(node_name=request.node_name, node_token=NODE_TOKEN)

    def heartbeat(self, beat: v1.Heartbeat) -> v1.HeartbeatReply:
        with self.lock:
            self.fingerprint = self.fingerprint or beat.fingerprint
            if beat.fingerprint != self.fingerprint:
                raise RefusedError(409, "node_identity_in_use")
            self.heartbeats.append((time.monotonic(), beat))
            return v1.HeartbeatReply(interval_s=1, version=self.version)

    def desired(self) -> v1.Desired:
        with self.lock:
            return v1.Desired(version=self.version, tasks=tuple(self.tasks.values()))

    def report(self, report: v1.Report) -> v1.ReportReply:
        with self.lock:
            settled = []
            for task in report.tasks:
                self.reports.setdefault(task.task_id, []).append((time.monotonic(), task))
                if task.phase in ENDED and self.is_settling:
                    settled.append(task.task_id)
                    self.tasks.pop(task.task_id, None)
            self.foreign = list(report.foreign) or self.foreign
            desired = self.desired() if self.is_answering_desired and report.version != self.version else None
            return v1.ReportReply(settled=tuple(settled), remove=tuple(sorted(self.remove)), desired=desired)

    def take_logs(self, batch: v1.LogBatch) -> v1.LogReply:
        with self.lock:
            for chunk in batch.chunks:
                log = self.logs.setdefault(chunk.task_id, bytearray())
                if chunk.offset > len(log):
                    self.log_chunks_ahead += 1
                    continue
                fresh = chunk.data[len(log) - chunk.offset :]
                log += fresh
                self.streams.setdefault(chunk.task_id, {}).setdefault(chunk.stream, bytearray()).extend(fresh)
            return v1.LogReply(stored={c.task_id: len(self.logs[c.task_id]) for c in batch.chunks})


class RefusedError(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], plane: ControlPlane) -> None:
        self.plane = plane
        self._sockets: set[socket.socket] = set()
        self._listeners: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._sockets.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._sockets.discard(request)
        self._listeners.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # agents that are killed in the middle of a call

    def cut_connections(self) -> None:
        for connection in tuple(self._sockets):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def listen_for_wakes(self, connection: socket.socket) -> None:
        self._listeners.add(connection)

    def wake(self, version: int) -> None:
        body = json.dumps({"version": version}).encode()
        for connection in tuple(self._listeners):
            try:
                connection.sendall(bytes([0x81, len(body)]) + body)
            except OSError:
                self._listeners.discard(connection)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/agent/v1/wake":
            self._websocket()
        else:
            self._answer(lambda _: self.server.plane.desired())

    def do_POST(self) -> None:
        plane = self.server.plane
        routes: dict[str, Callable[[bytes], v1.Message]] = {
            "/agent/v1/enrol": lambda body: plane.enrol(v1.EnrolRequest.model_validate_json(body)),
            "/agent/v1/heartbeat": lambda body: plane.heartbeat(v1.Heartbeat.model_validate_json(body)),
            "/agent/v1/report": lambda body: plane.report(v1.Report.model_validate_json(body)),
            "/agent/v1/logs": lambda body: plane.take_logs(v1.LogBatch.model_validate_json(body)),
        }
        self._answer(routes[self.path])

    def _answer(self, route: Callable[[bytes], v1.Message]) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        forced = self.server.plane.failing(self.path)
        if forced is not None:
            self._send(*forced)
            return
        try:
            if self.path != "/agent/v1/enrol" and self.headers.get("Authorization") != f"Bearer {NODE_TOKEN}":
                raise RefusedError(401, "unauthenticated")
            self._send(200, route(body).model_dump_json().encode())
        except RefusedError as refusal:
            self._send(refusal.status, json.dumps({"code": refusal.code, "detail": "no"}).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _websocket(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {NODE_TOKEN}":
            self._send(403, b"{}")
            return
        digest = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + _GUID).encode(), usedforsecurity=False).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        self.end_headers()
        self.server.listen_for_wakes(self.connection)
        while self.rfile.read(1):  # pings go unanswered for the short time that a test lasts
            pass
        self.close_connection = True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
