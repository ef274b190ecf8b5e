"""The gateway as it is run: Envoy in front of the real server, and containers that are small servers of ours."""

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from aistation.tenancy.models import User
    from tests.aistation.ingress.street import Browser, Container, Gateway, Neighbourhood


@pytest.fixture(scope="session")
def _gateway_processes(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Gateway]":
    from tests.aistation.ingress.street import running_gateway  # noqa: PLC0415 - the settings are not loaded up there

    with running_gateway(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.fixture
def gateway(_gateway_processes: "Gateway", transactional_db: None, settings: Any) -> "Gateway":
    """The gateway with no environment behind it, on this test's rows."""
    settings.GATEWAY_DIR = _gateway_processes.directory
    settings.PORTAL_URL = _gateway_processes.url
    _gateway_processes.publish()
    return _gateway_processes


@pytest.fixture
def neighbourhood(gateway: "Gateway") -> "Neighbourhood":
    from tests.aistation.ingress.street import Neighbourhood  # noqa: PLC0415 - as above
    from tests.factories.world import a_node, a_site  # noqa: PLC0415 - as above

    site = a_site()
    return Neighbourhood(site, a_node("n1", site.pool, cards=0))


@pytest.fixture
def browser(gateway: "Gateway") -> "Callable[..., Browser]":
    """``browser(user)``: a browser in which that person is signed in to the portal; ``browser()``: a stranger's."""
    from tests.aistation.ingress.street import Browser  # noqa: PLC0415 - as above

    def make(user: "User | None" = None) -> "Browser":
        return Browser(gateway, user)

    return make


@pytest.fixture
def containers() -> "Iterator[Callable[[], Container]]":
    """Makes HTTP containers that end with the test."""
    from tests.aistation.ingress.street import Container  # noqa: PLC0415 - as above

    made: list[Container] = []

    def make() -> Container:
        container = Container()
        threading.Thread(target=container.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        made.append(container)
        return container

    yield make
    for container in made:
        container.shutdown()
        container.server_close()


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A container whose WebSocket echoes."""
    from tests.aistation.ingress.street import echo_server  # noqa: PLC0415 - as above

    server = echo_server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.socket.getsockname()[1]
    server.shutdown()
    thread.join()
