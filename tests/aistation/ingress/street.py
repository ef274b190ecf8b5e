"""What the tests of the gateway stand on: containers, environments with their routes, and browsers."""

import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction
from django.test import Client
from websockets.sync.server import Server, ServerConnection, serve

from aistation.core.clock import now
from aistation.embedded.directories import socket_directory
from aistation.embedded.envoy import Envoy
from aistation.embedded.http import status_of
from aistation.embedded.process import Child
from aistation.environments.services import create_environment
from aistation.fleet.models import Node
from aistation.ingress.envoy import gateway_secret
from aistation.ingress.publish import write_routes
from aistation.tenancy.models import User
from aistation.tenancy.selectors import actor_of
from aistation.workloads.allocations import Start, TaskTarget, place
from aistation.workloads.lifecycle import Kind, Phase
from aistation.workloads.models import Task, Workload
from aistation.workloads.reports import TaskFacts, record_task_report
from aistation.workloads.services import lock
from tests.factories.world import Site, a_submission

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 10


def eventually(condition: Callable[[], bool], *, within_s: float = PATIENCE_S) -> float:
    """Wait until it holds; how long that took."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < within_s, "did not come about"
        time.sleep(0.01)
    return time.monotonic() - begun


@dataclass
class Seen:
    """A request as the container got it."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body_bytes: int = 0

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Container"

    def do_GET(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        seen = Seen(self.command, self.path, list(self.headers.items()))
        while seen.body_bytes < size:
            seen.body_bytes += len(self.rfile.read(min(65_536, size - seen.body_bytes)))
        self.server.seen.append(seen)
        self.server.answer(self)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_GET  # noqa: N815 - the base class looks for these

    def log_message(self, *_: object) -> None:
        """Quiet."""


def _plain(handler: _Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "2")
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(b"ok")


class Container(ThreadingHTTPServer):
    """An HTTP server where a container of an environment would listen. ``answer`` writes each reply."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[Seen] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = _plain  # type: ignore[assignment]

    @property
    def port(self) -> int:
        return self.server_address[1]

    def handle_error(self, *_: object) -> None:
        """A connection that the gateway drops is no fault of the test."""


@dataclass
class Gateway:
    """Envoy on a port of its own, before the server as a process of its own."""

    port: int
    directory: Path

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def host(self, environment: Workload) -> str:
        return f"{environment.uid}.localhost:{self.port}"

    def origin(self, environment: Workload) -> str:
        return f"http://{self.host(environment)}"

    def publish(self) -> bool:
        return write_routes(now())


@contextmanager
def running_gateway(home: Path) -> Iterator[Gateway]:
    """Envoy as it is embedded, and the server, on this test process's database."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        gateway = Gateway(probe.getsockname()[1], home / "files")
    web_socket = socket_directory(home / "socket") / "web.sock"
    database = connection.settings_dict["NAME"]
    web = Child(
        "web",
        [
            *(sys.executable, "-m", "uvicorn", "aistation.asgi:application", "--uds", str(web_socket)),
            *("--lifespan", "off", "--log-level", "warning", "--timeout-graceful-shutdown", "1"),
        ],
        log=home / "web.log",
        environment={
            **os.environ,
            "AISTATION_DATABASE_URL": f"{os.environ['AISTATION_DATABASE_URL'].rsplit('/', 1)[0]}/{database}",
            "AISTATION_URL": gateway.url,
        },
        directory=ROOT,
        is_ready=lambda: status_of(web_socket, "/healthz") == 200,
    )
    secret = gateway_secret(settings.SECRET_KEY)
    envoy = Envoy(gateway.directory, port=gateway.port, web_socket=web_socket, secret=secret, log=home / "envoy.log")
    envoy.prepare()
    try:
        web.wait_until_ready(60)
        envoy.child.wait_until_ready(60)
        yield gateway
    finally:
        envoy.child.stop()
        web.stop()


def echo_server() -> Server:
    """A container whose WebSocket echoes. Its caller serves and shuts it down."""

    def echo(peer: ServerConnection) -> None:
        for message in peer:
            peer.send(message)

    quiet = logging.getLogger("tests.echo")
    quiet.setLevel(logging.CRITICAL)
    return serve(echo, "127.0.0.1", 0, max_size=None, logger=quiet)


@dataclass
class Neighbourhood:
    """A site with one node on this machine, and environments whose containers are ports here."""

    site: Site
    node: Node

    def environment(self, port: int, *, user: User | None = None) -> Workload:
        """A running environment whose container listens on ``port``."""
        actor = actor_of((user or self.site.user).pk)
        assert actor is not None
        asked = a_submission(Kind.ENVIRONMENT, gpus=0, cpu_milli=100, memory_mib=64)
        made = create_environment(actor=actor, submission=asked, now=now())
        with transaction.atomic():
            workload, scopes = lock(made.pk)
            place([Start(workload, scopes, [TaskTarget(0, self.node.pk, [])], card_milli=0)], epoch=1, now=now())
        self.report(made, Phase.RUNNING, port)
        return Workload.objects.get(pk=made.pk)

    def report(self, environment: Workload, phase: Phase, port: int | None = None) -> None:
        """What the node's agent would report of the container."""
        task = Task.objects.filter(attempt__workload=environment).latest("pk")
        facts = TaskFacts(task.uid, task.nonce, phase, host_port=port, exit_code=0 if phase is Phase.EXITED else None)
        record_task_report(node_id=self.node.pk, report=facts, now=now())


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


class Browser:
    """Keeps cookies by host, as browsers do, and says where its requests come from. Follows nothing by itself."""

    def __init__(self, gateway: Gateway, user: User | None = None) -> None:
        self._gateway = gateway
        self.cookies: dict[str, dict[str, str]] = {}
        if user is not None:
            client = Client()
            client.force_login(user)
            session = client.cookies[settings.SESSION_COOKIE_NAME].value
            self.cookies[f"localhost:{gateway.port}"] = {settings.SESSION_COOKIE_NAME: session}

    def request(
        self, host: str, path: str = "/", method: str = "GET", body: bytes | None = None, /, **headers: str
    ) -> Answer:
        """One request as a script of the page would send it. Header names: ``sec_fetch_site`` is Sec-Fetch-Site."""
        link = HTTPConnection("127.0.0.1", self._gateway.port, timeout=PATIENCE_S)
        try:
            link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            link.putheader("Host", host)
            for name, value in (
                self.headers(host).items() | {k.replace("_", "-"): v for k, v in headers.items()}.items()
            ):
                link.putheader(name, value)
            if body is not None:
                link.putheader("Content-Length", str(len(body)))
            link.endheaders(body)
            return self._take(host, link.getresponse())
        finally:
            link.close()

    def headers(self, host: str) -> dict[str, str]:
        jar = self.cookies.get(host, {})
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items())} if jar else {}

    def navigate(self, host: str, path: str = "/", **headers: str) -> Answer:
        """What typing the address sends."""
        sent = {
            "sec_fetch_mode": "navigate",
            "sec_fetch_dest": "document",
            "sec_fetch_site": "none",
            "accept": "text/html",
        }
        return self.request(host, path, **(sent | headers))

    def follow(self, host: str, path: str = "/") -> Answer:
        """Type the address and go wherever it leads."""
        for _ in range(8):
            answer = self.navigate(host, path)
            location = answer.header("location")
            if location is None:
                return answer
            if location.startswith("http://"):
                host, _, path = location.removeprefix("http://").partition("/")
                path = "/" + path
            else:
                path = location
        raise AssertionError("redirects without end")

    def enter(self, environment: Workload, path: str = "/") -> Answer:
        return self.follow(self._gateway.host(environment), path)

    def _take(self, host: str, response: HTTPResponse) -> Answer:
        headers = response.getheaders()
        for name, value in headers:
            if name.lower() == "set-cookie":
                key, _, rest = value.partition("=")
                self.cookies.setdefault(host, {})[key] = rest.partition(";")[0]
        return Answer(response.status, headers, response.read())
