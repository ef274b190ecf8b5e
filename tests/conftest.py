"""What every test may use: real stores, started by pytest itself, and the whole server as a process.

One PostgreSQL for all workers of a run, one database and one Valkey for each. All end with pytest, also when it is
killed. Nothing needs to be installed or configured beforehand: `pytest` alone works.
"""

import functools
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import docker
import docker.errors
import pytest
import redis
import requests

from aistation.embedded.directories import DirectoryInUseError, DirectoryLock
from aistation.embedded.postgres import Postgres
from aistation.embedded.process import Child
from aistation.embedded.valkey import Valkey

ROOT = Path(__file__).resolve().parent.parent
_SETTINGS = "aistation.settings.test"
_STATE_PREFIX = "aistation-test-"
_HOME_VARIABLE = "AISTATION_TEST_HOME"
_START_TIMEOUT_S = 60


class Stores:
    """PostgreSQL and Valkey of this process. PostgreSQL comes up when a test first needs it."""

    def __init__(self, *, is_worker: bool) -> None:
        self._lock = None if is_worker else _lock_new_home()
        self.home = self._lock.directory if self._lock else Path(os.environ[_HOME_VARIABLE])
        os.environ[_HOME_VARIABLE] = str(self.home)
        self.postgres = Postgres(self.home / "postgres", log=self.home / "postgres.log", durable=False)
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self.valkey = Valkey(self.home / f"valkey-{name}", log=self.home / f"valkey-{name}.log", durable=False)
        self._postgres_runs = is_worker
        if not is_worker:
            self.postgres.prepare_password()
        self.valkey.child.wait_until_ready(_START_TIMEOUT_S)

    def need_postgres(self) -> None:
        if not self._postgres_runs:
            self.postgres.prepare()
            self.postgres.child.wait_until_ready(_START_TIMEOUT_S)
            self._postgres_runs = True

    def close(self) -> None:
        self.valkey.child.stop()
        self.postgres.child.stop()
        if self._lock:
            shutil.rmtree(self.home, ignore_errors=True)
            self._lock.release()


_stores_key = pytest.StashKey[Stores]()


def pytest_configure(config: pytest.Config) -> None:
    """Name the stores in the environment, then load the settings; pytest-django completes its set-up after this."""
    if config.getoption("help", False) or config.getoption("version", 0):
        return
    stores = Stores(is_worker=hasattr(config, "workerinput"))
    config.stash[_stores_key] = stores
    config.add_cleanup(stores.close)
    if config.getoption("numprocesses", None):
        # Runs no test itself. Its workers inherit its environment: with the settings named there, pytest-django would
        # load them before a worker has named its own Valkey.
        os.environ.pop("DJANGO_SETTINGS_MODULE", None)
        stores.need_postgres()
        return
    os.environ.update(
        DJANGO_SETTINGS_MODULE=_SETTINGS,
        AISTATION_SECRET_KEY="tests-only",
        AISTATION_DATABASE_URL=stores.postgres.url("aistation"),
        AISTATION_REDIS_URL=stores.valkey.url,
        AISTATION_FOLDERS_ROOT=str(stores.home / "folders"),
        AISTATION_GATEWAY_DIR=str(stores.home / "gateway"),
    )
    from django.conf import settings  # noqa: PLC0415 - only now is the environment complete

    if settings.SETTINGS_MODULE != _SETTINGS:
        raise pytest.UsageError(f"Tests run with {_SETTINGS}, and {settings.SETTINGS_MODULE} is loaded already")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A part of the machine that a marker names may be missing, unless AISTATION_REQUIRE demands it."""
    demanded = os.environ.get("AISTATION_REQUIRE", "").split(",")
    for part, missing in _PARTS.items():
        if item.get_closest_marker(part) and (reason := missing()):
            (pytest.fail if part in demanded else pytest.skip)(reason)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, pytestconfig: pytest.Config
) -> None:
    """Bring PostgreSQL up before the first test that needs it."""
    pytestconfig.stash[_stores_key].need_postgres()


@pytest.fixture
def redis_url() -> str:
    """Valkey of this test process. It is emptied after each test that uses the database."""
    return os.environ["AISTATION_REDIS_URL"]


@pytest.fixture(autouse=True)
def _empty_redis(request: pytest.FixtureRequest) -> Iterator[None]:
    """Caches, counters and messages of one test are not the next one's."""
    yield
    if "_django_db_helper" in request.fixturenames or request.node.get_closest_marker("django_db"):
        with redis.Redis.from_url(os.environ["AISTATION_REDIS_URL"]) as client:
            client.flushall()


@dataclass(frozen=True, slots=True)
class AsgiServer:
    """The real server as a process of its own, on this test process's database."""

    url: str
    log: Path


@pytest.fixture(scope="session")
def _asgi_process(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsgiServer]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://localhost:{listener.getsockname()[1]}"
    log = tmp_path_factory.mktemp("server") / "web.log"
    child = Child(
        "web",
        [
            *(sys.executable, "-m", "uvicorn", "aistation.asgi:application"),
            *("--fd", str(listener.fileno())),
            *("--lifespan", "off", "--log-level", "info", "--timeout-graceful-shutdown", "1"),
        ],
        log=log,
        environment={**os.environ, "AISTATION_DATABASE_URL": _test_database_url(), "AISTATION_URL": url},
        directory=ROOT,
        is_ready=lambda: _answers_http(f"{url}/healthz"),
        keep_descriptors=(listener.fileno(),),
    )
    child.wait_until_ready(_START_TIMEOUT_S)
    yield AsgiServer(url, log)
    child.stop()
    listener.close()


@pytest.fixture
def asgi_server(_asgi_process: AsgiServer, transactional_db: None) -> AsgiServer:
    """For tests of agents, gateway and browser: they and the test see the same committed rows."""
    return _asgi_process


@functools.cache
def _missing_docker() -> str:
    """Why tests cannot use an engine; empty: they can."""
    try:
        client = docker.from_env(timeout=10)
        client.ping()
        client.close()
    except docker.errors.DockerException as error:
        return f"no Docker engine answers: {error}"
    return ""


@functools.cache
def _missing_chromium() -> str:
    if shutil.which("chromium") is None:
        return "chromium is not on PATH"
    if not (ROOT / "static" / "vendor" / ".complete").exists():
        return "static/vendor is not fetched: make assets"
    return ""


_PARTS: Final[Mapping[str, Callable[[], str]]] = {"docker": _missing_docker, "chromium": _missing_chromium}


def _test_database_url() -> str:
    from django.db import connection  # noqa: PLC0415 - the settings are not loaded when this file is

    return f"{os.environ['AISTATION_DATABASE_URL'].rsplit('/', 1)[0]}/{connection.settings_dict['NAME']}"


def _answers_http(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).status_code < 500
    except requests.RequestException:
        return False


def _lock_new_home() -> DirectoryLock:
    """A directory of this run; those of runs that were killed are removed."""
    for old in Path(tempfile.gettempdir()).glob(f"{_STATE_PREFIX}*"):
        try:
            lock = DirectoryLock(old)
            lock.acquire()
        except (DirectoryInUseError, OSError):
            continue
        shutil.rmtree(old, ignore_errors=True)
        lock.release()
    home = Path(tempfile.mkdtemp(prefix=_STATE_PREFIX))
    home.chmod(0o711)  # PostgreSQL may run as another user, who passes through
    lock = DirectoryLock(home)
    lock.acquire()
    return lock
