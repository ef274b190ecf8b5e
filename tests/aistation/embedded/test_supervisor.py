"""Whatever is killed comes back within seconds, nothing is lost, and nothing outlives the supervisor."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2
import pytest
import redis

from aistation.embedded.http import status_of
from tests.aistation.embedded.waiting import alive, descendants, eventually, is_alive
from tests.conftest import ROOT

ELSEWHERE = Path("/var/lib/aistation")


@dataclass(frozen=True, slots=True)
class Running:
    """A supervisor that is up, with everything below it."""

    process: subprocess.Popen[str]
    directory: Path
    port: int
    database_url: str
    redis_url: str

    def pid_of(self, name: str) -> int:
        return int((self.directory / "run" / f"{name}.pid").read_text())

    def kill(self, name: str) -> None:
        """Kill one program and return once another process has taken its place."""
        killed = self.pid_of(name)
        subprocess.run(["kill", "-9", str(killed)], check=True)
        eventually(lambda: self.pid_of(name) != killed and is_alive(self.pid_of(name)))

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        connection = psycopg2.connect(self.database_url)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()

    def database_answers(self) -> bool:
        try:
            return bool(self.execute("SELECT 1"))
        except psycopg2.OperationalError:
            return False

    def web_answers(self) -> bool:
        return status_of(self.port, "/") == 200


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def start(directory: Path, port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.aistation.embedded.stand_in", str(directory), str(port)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@contextmanager
def running(directory: Path) -> Iterator[Running]:
    port = free_port()
    with start(directory, port) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("urls "):
                    break
            else:
                pytest.fail(f"it did not start: {process.stderr and process.stderr.read()}")
            _, database_url, redis_url = line.split()
            supervisor = Running(process, directory, port, _for_psycopg(database_url), redis_url)
            eventually(supervisor.web_answers)
            yield supervisor
        finally:
            process.terminate()
            process.communicate(timeout=30)


def _for_psycopg(url: str) -> str:
    """The settings' form of the URL, in libpq's words."""
    credentials, path = url.removeprefix("postgres://").split("@:5432/")
    user, password = credentials.split(":")
    directory, database = path.rsplit("/", 1)
    return f"host={directory} port=5432 user={user} password={password} dbname={database}"


@pytest.fixture
def directory() -> Iterator[Path]:
    """Reachable for the user that PostgreSQL runs as, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="aistation-supervisor-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def test_what_is_killed_comes_back_with_its_data(directory: Path) -> None:
    with running(directory) as supervisor:
        supervisor.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS id")
        supervisor.kill("postgres")
        eventually(supervisor.database_answers)
        assert supervisor.execute("SELECT count(*) FROM kept") == [(1000,)]

        with redis.Redis.from_url(supervisor.redis_url) as client:
            client.set("kept", "yes")
            eventually(lambda: client.info("persistence")["aof_pending_bio_fsync"] == 0)
        supervisor.kill("valkey")
        eventually(lambda: _redis_value(supervisor.redis_url, "kept") == b"yes")

        supervisor.kill("gateway")
        eventually(supervisor.web_answers)
        supervisor.kill("web")
        eventually(supervisor.web_answers)


def test_a_caller_waits_while_the_web_server_starts_again(directory: Path) -> None:
    with running(directory) as supervisor:
        supervisor.process.send_signal(signal.SIGSTOP)  # so that the restart comes after the question
        subprocess.run(["kill", "-9", str(supervisor.pid_of("web"))], check=True)
        with socket.create_connection(("127.0.0.1", supervisor.port)) as caller:
            caller.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            supervisor.process.send_signal(signal.SIGCONT)
            caller.settimeout(10)
            assert caller.recv(100).startswith(b"HTTP/1.1 200")


def test_nothing_outlives_a_killed_supervisor_and_the_next_start_has_its_data(directory: Path) -> None:
    with running(directory) as supervisor:
        supervisor.execute("CREATE TABLE kept AS SELECT 42 AS id")
        below = descendants(supervisor.process.pid)
        assert len(below) > 4
        supervisor.process.kill()
        eventually(lambda: not alive(below), within_s=3)
    with running(directory) as supervisor:
        assert supervisor.execute("SELECT id FROM kept") == [(42,)]


def test_a_stop_leaves_nothing_and_says_so_with_its_status(directory: Path) -> None:
    with running(directory) as supervisor:
        below = descendants(supervisor.process.pid)
        supervisor.process.send_signal(signal.SIGINT)
        assert supervisor.process.wait(20) == 0
        assert not alive(below)
        assert not list((directory / "run").iterdir())


def test_a_second_supervisor_of_the_same_directory_is_refused(directory: Path) -> None:
    with running(directory) as supervisor:
        with start(directory, free_port()) as second:
            _, errors = second.communicate(timeout=20)
        assert second.returncode == 1
        assert f"is in use by process {supervisor.process.pid}" in errors
        assert supervisor.database_answers()


def test_a_long_path_does_not_break_the_sockets(directory: Path) -> None:
    deep = directory.joinpath(*["a-directory-with-a-long-name"] * 6)
    deep.mkdir(parents=True)
    for part in (deep, *deep.parents):
        if part.is_relative_to(directory):
            part.chmod(0o711)
    with running(deep) as supervisor:
        assert supervisor.database_answers()
        assert supervisor.web_answers()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts PostgreSQL as another user")
def test_a_directory_that_postgres_cannot_reach_does_not_matter(directory: Path) -> None:
    """As root in a closed home: the cluster is kept elsewhere, and found again."""
    before = set(ELSEWHERE.glob("*"))
    inside = directory / "inside"
    inside.mkdir()
    directory.chmod(0o700)
    try:
        with running(inside) as supervisor:
            supervisor.execute("CREATE TABLE kept AS SELECT 42 AS id")
        with running(inside) as supervisor:
            assert supervisor.execute("SELECT id FROM kept") == [(42,)]
        assert not (inside / "postgres" / "data").exists()
    finally:
        for made in set(ELSEWHERE.glob("*")) - before:
            shutil.rmtree(made)


def _redis_value(url: str, key: str) -> object:
    with redis.Redis.from_url(url) as client:
        try:
            return client.get(key)
        except redis.RedisError:
            return None
