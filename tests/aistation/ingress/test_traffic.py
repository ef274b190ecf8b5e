"""What passes through the real gateway unchanged, and what ends when it must."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from aistation.core.clock import now
from aistation.ingress import selectors
from aistation.ingress.routes import Route
from aistation.tenancy.models import User
from aistation.tenancy.policy import Actor, Role
from aistation.tenancy.services import change_user, set_member
from aistation.workloads.models import Workload
from tests.aistation.ingress.street import Browser, Container, Gateway, Neighbourhood, eventually
from tests.factories.world import a_user

pytestmark = pytest.mark.django_db(transaction=True)
Browsers = Callable[..., Browser]
Containers = Callable[[], Container]
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "date", "server"}


class Visit:
    """An owner inside a running environment."""

    def __init__(self, gateway: Gateway, environment: Workload, browser: Browser) -> None:
        self.gateway = gateway
        self.environment = environment
        self.browser = browser
        self.host = gateway.host(environment)

    def socket(self, origin: str | None = None) -> ClientConnection:
        """A WebSocket as the environment's own page opens it."""
        return connect(
            f"ws://{self.host}/echo",
            sock=socket.create_connection(("127.0.0.1", self.gateway.port)),
            origin=Origin(origin or self.gateway.origin(self.environment)),
            additional_headers=self.browser.headers(self.host),
            max_size=None,
        )


@pytest.fixture
def visit(gateway: Gateway, neighbourhood: Neighbourhood, browser: Browsers) -> Callable[..., Visit]:
    """``visit(port)``: a running environment there, with its owner inside."""

    def make(port: int, user: User | None = None) -> Visit:
        environment = neighbourhood.environment(port, user=user)
        gateway.publish()
        inside = browser(user or neighbourhood.site.user)
        inside.enter(environment)
        eventually(lambda: inside.request(gateway.host(environment)).status not in (404, 503))
        return Visit(gateway, environment, inside)

    return make


# --- unchanged -------------------------------------------------------------------------------------------


def _many_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(int(handler.path.rpartition("/")[2]))
    for name, value in (
        ("Set-Cookie", "a=1; Path=/"),
        ("Set-Cookie", "b=2; HttpOnly"),
        ("Set-Cookie", "c=3"),
        ("Vary", "Accept"),
        ("Vary", "Cookie"),
        ("Link", "</x.css>; rel=preload"),
        ("Content-Security-Policy", "default-src *"),
        ("X-Odd", 'ä "quoted"'),
    ):
        handler.send_header(name, value)
    if handler.path.startswith("/chunked"):
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
        return
    body = b"" if handler.path.endswith(("204", "304")) else b"seven77"
    if not handler.path.endswith(("204", "304")):
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/200"),
        ("GET", "/chunked/200"),
        ("HEAD", "/200"),
        ("GET", "/204"),
        ("GET", "/304"),
        ("GET", "/206"),
        ("GET", "/404"),
        ("GET", "/500"),
        ("GET", "/503"),
    ],
)
def test_headers_and_bytes_are_those_of_the_container(  # B051
    visit: Callable[..., Visit], containers: Containers, method: str, path: str
) -> None:
    container = containers()
    inside = visit(container.port)
    container.answer = _many_headers
    through = inside.browser.request(inside.host, path, method, range="bytes=0-6")
    direct_link = HTTPConnection("127.0.0.1", container.port)
    direct_link.request(method, path)
    direct = direct_link.getresponse()
    direct_body = direct.read()
    direct_link.close()
    assert (through.status, through.body) == (direct.status, direct_body)
    assert _kept(through.headers) == _kept(direct.getheaders())
    assert container.seen[-2].header("range") == "bytes=0-6"


def _kept(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """All but hop-by-hop. Envoy writes the members of Vary on one line, which RFC 9110 (5.3) calls the same."""
    lines = [(name.lower(), value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
    return sorted(
        (name, part.strip()) for name, value in lines for part in (value.split(",") if name == "vary" else [value])
    )


def test_events_arrive_when_they_are_sent(visit: Callable[..., Visit], containers: Containers) -> None:  # B051
    may_go_on = threading.Event()

    def events(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(b"data: 1\n\n")
        handler.wfile.flush()
        may_go_on.wait(10)
        handler.wfile.write(b"data: 2\n\n")

    container = containers()
    inside = visit(container.port)
    container.answer = events
    link = HTTPConnection("127.0.0.1", inside.gateway.port, timeout=10)
    link.request("GET", "/events", headers={"Host": inside.host, **inside.browser.headers(inside.host)})
    reply = link.getresponse()
    assert reply.readline() == b"data: 1\n"
    may_go_on.set()
    assert reply.read() == b"\ndata: 2\n\n"
    link.close()


def test_a_large_upload_passes_whole_and_the_portal_answers_413(  # B051
    visit: Callable[..., Visit], containers: Containers, gateway: Gateway
) -> None:
    container = containers()
    inside = visit(container.port)
    size = 64 * 1024 * 1024
    origin = gateway.origin(inside.environment)
    sent = inside.browser.request(inside.host, "/upload", "POST", bytes(size), origin=origin, expect="100-continue")
    assert (sent.status, container.seen[-1].body_bytes) == (200, size)
    portal = f"localhost:{gateway.port}"
    refused = inside.browser.request(portal, "/login", "POST", bytes(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1))
    assert refused.status == 413


def test_a_websocket_echoes_small_and_ten_megabytes(visit: Callable[..., Visit], echo_port: int) -> None:  # B050
    inside = visit(echo_port)
    with inside.socket() as peer:
        for message in ("hello", b"\x00\xff", "x" * 10_000_000):
            peer.send(message)
            assert peer.recv(timeout=20) == message


def test_a_websocket_of_another_origin_or_person_is_refused(  # S24
    visit: Callable[..., Visit], echo_port: int, gateway: Gateway, browser: Browsers
) -> None:
    inside = visit(echo_port)
    for origin in ("http://env-neighbour.localhost", gateway.url, "null"):
        with pytest.raises(InvalidStatus) as refused, inside.socket(origin):
            pass
        assert refused.value.response.status_code == 403
    inside.browser = browser()
    with pytest.raises(InvalidStatus) as unknown, inside.socket():
        pass
    assert unknown.value.response.status_code == 401


# --- access taken away -----------------------------------------------------------------------------------


def _leave_group(user: User, neighbourhood: Neighbourhood) -> None:
    group = neighbourhood.site.group
    set_member(group=group, username=user.username, role=Role.VIEWER, now=now(), actor=None)


def _deactivate(user: User, _: Neighbourhood) -> None:
    change_user(user_id=user.pk, now=now(), actor=_root(), is_active=False)


def _new_password(user: User, _: Neighbourhood) -> None:
    change_user(user_id=user.pk, now=now(), actor=_root(), password="another correct horse")


def _sign_out(user: User, _: Neighbourhood) -> None:
    for session in Session.objects.all():
        if session.get_decoded()["_auth_user_id"] == str(user.pk):
            session.delete()


def _root() -> Actor:
    return Actor(a_user("root", admin=True).pk, "root", is_platform_admin=True)


@pytest.mark.parametrize("take_away", [_leave_group, _deactivate, _new_password, _sign_out])
def test_open_sockets_end_within_five_seconds_of_losing_access_and_others_stay(  # B066, S20, S21
    visit: Callable[..., Visit],
    echo_port: int,
    neighbourhood: Neighbourhood,
    gateway: Gateway,
    take_away: Callable[[User, Neighbourhood], None],
) -> None:
    loser, keeper = visit(echo_port), visit(echo_port, _a_member(neighbourhood, "bob"))
    with loser.socket() as cut, keeper.socket() as kept:
        for peer in (cut, kept):
            peer.send("here")
            assert peer.recv(timeout=10) == "here"
        take_away(neighbourhood.site.user, neighbourhood)
        begun = time.monotonic()
        gateway.publish()  # what the tick of two seconds does
        with pytest.raises(ConnectionClosed):
            cut.recv(timeout=10)
        eventually(lambda: loser.browser.request(loser.host).status == 401)
        assert time.monotonic() - begun < 5
        kept.send("still")
        assert kept.recv(timeout=10) == "still"


def test_a_new_sign_in_after_that_gets_in_again(
    visit: Callable[..., Visit], echo_port: int, gateway: Gateway, browser: Browsers, neighbourhood: Neighbourhood
) -> None:
    first = visit(echo_port)
    Session.objects.all().delete()
    gateway.publish()
    second = Visit(gateway, first.environment, browser(neighbourhood.site.user))
    second.browser.enter(second.environment)
    with second.socket() as peer:
        peer.send("back")
        assert peer.recv(timeout=10) == "back"


def _a_member(neighbourhood: Neighbourhood, username: str) -> User:
    person = a_user(username)
    set_member(group=neighbourhood.site.group, username=username, role=Role.MEMBER, now=now(), actor=None)
    return person


# --- routes that change ------------------------------------------------------------------------------------


def test_a_route_is_live_within_a_second_of_its_writing(
    gateway: Gateway, neighbourhood: Neighbourhood, containers: Containers, browser: Browsers
) -> None:
    container, owner = containers(), browser(neighbourhood.site.user)
    for _ in range(3):
        environment = neighbourhood.environment(container.port)
        host = gateway.host(environment)
        assert owner.enter(environment).status == 404
        begun = time.monotonic()
        assert gateway.publish()
        eventually(lambda host=host: owner.request(host).status == 200)  # type: ignore[misc]
        assert time.monotonic() - begun < 1


def test_a_hundred_route_changes_lose_no_request_and_cut_no_socket(
    visit: Callable[..., Visit],
    containers: Containers,
    echo_port: int,
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside, talking = visit(containers().port), visit(echo_port)
    real = selectors.routes()
    churned = [Route(f"env-churn{number}", "127.0.0.1", 9) for number in range(50)]
    with _load(inside) as statuses, ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(talking.socket()) for _ in range(5)]
        for change in range(100):
            monkeypatch.setattr(selectors, "routes", lambda change=change: [*real, *churned[: change % 50]])
            gateway.publish()
        for number, peer in enumerate(sockets):
            peer.send(str(number))
            assert peer.recv(timeout=10) == str(number)
    assert len(statuses) > 100
    assert set(statuses) == {200}


@contextmanager
def _load(inside: Visit) -> Iterator[list[int]]:
    """Four clients that ask without a pause, half of them over one connection each."""
    statuses: list[int] = []
    enough = threading.Event()
    headers = {"Host": inside.host, **inside.browser.headers(inside.host)}

    def ask(keeps_alive: bool) -> None:
        link = HTTPConnection("127.0.0.1", inside.gateway.port, timeout=10)
        while not enough.is_set():
            try:
                link.request("GET", "/", headers=headers)
                reply = link.getresponse()
                reply.read()
                statuses.append(reply.status)
            except OSError:
                statuses.append(0)
                link.close()
            if not keeps_alive:
                link.close()
        link.close()

    clients = [threading.Thread(target=ask, args=(number % 2 == 0,)) for number in range(4)]
    for client in clients:
        client.start()
    try:
        yield statuses
    finally:
        enough.set()
        for client in clients:
            client.join()
