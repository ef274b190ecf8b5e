"""`manage.py quickstart` as a newcomer starts it: the whole platform on one machine, with simulated cards."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.aistation.embedded.test_supervisor import ELSEWHERE, free_port
from tests.aistation.embedded.waiting import alive, descendants, eventually
from tests.conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
START_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Platform:
    process: subprocess.Popen[bytes]
    directory: Path
    credentials: dict[str, str]

    def get(self, path: str) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.credentials['token']}"}
        return requests.get(self.credentials["url"] + path, headers=headers, timeout=10)

    def delete(self, path: str) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.credentials['token']}"}
        return requests.delete(self.credentials["url"] + path, headers=headers, timeout=10)

    def works(self) -> bool:
        try:
            return self.get("/readyz").status_code == 200 and self.get("/api/v1/me").status_code == 200
        except requests.RequestException:
            return False

    def submit(self, *command: str) -> str:
        body = {
            "name": "job",
            "image": "shell",
            "command": command,
            "resources": {"cpu_milli": 100, "memory_mib": 64, "gpus": 1},
        }
        headers = {"Authorization": f"Bearer {self.credentials['token']}"}
        answer = requests.post(f"{self.credentials['url']}/api/v1/jobs", json=body, headers=headers, timeout=10)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def state_of(self, job: str) -> str:
        try:
            return str(self.get(f"/api/v1/jobs/{job}").json().get("state"))
        except (requests.RequestException, ValueError):
            return "unknown"

    def kill(self, name: str) -> None:
        pid_file = self.directory / "run" / f"{name}.pid"
        killed = pid_file.read_text()
        subprocess.run(["kill", "-9", killed.strip()], check=True)
        eventually(lambda: pid_file.read_text() != killed)


def output_of(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.out")


def start(directory: Path, port: int, *more: str) -> subprocess.Popen[bytes]:
    """With nothing of ours in the environment, as after a clone."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AISTATION_", "DJANGO_"))}
    command = [sys.executable, "manage.py", "quickstart", "--port", str(port), "--data-dir", str(directory), *more]
    with output_of(directory).open("ab") as output:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)


@contextmanager
def platform(directory: Path, *more: str) -> Iterator[Platform]:
    port = free_port()
    credentials = directory / "credentials.json"
    before = credentials.stat().st_mtime_ns if credentials.exists() else 0
    with start(directory, port, "--gpus", "simulated:2x8xV100-32GB", "--runtime", "process", *more) as process:
        try:
            eventually(
                lambda: (
                    process.poll() is not None or (credentials.exists() and credentials.stat().st_mtime_ns != before)
                ),
                within_s=START_TIMEOUT_S,
            )
            assert process.poll() is None, output_of(directory).read_text()
            yield Platform(process, directory, json.loads(credentials.read_text()))
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="aistation-quickstart-") as name:
        Path(name).chmod(0o711)
        yield Path(name) / "data"


def test_a_start_makes_an_administrator_who_can_run_a_job_and_a_stop_keeps_it_all(directory: Path) -> None:
    with platform(directory) as first:
        assert (directory / "credentials.json").stat().st_mode & 0o777 == 0o600
        assert set(first.credentials) == {"url", "username", "password", "token"}
        eventually(lambda: [n["state"] for n in first.get("/api/v1/nodes").json()["results"]] == ["ready"] * 2)
        eventually(lambda: len(first.get("/api/v1/gpus").json()["results"]) == 16)
        job = first.submit("sh", "-c", "echo hello")
        eventually(lambda: first.state_of(job) == "succeeded", within_s=30)
        assert requests.get(f"{first.credentials['url']}/login", timeout=10).status_code == 200
        endless = first.submit("sleep", "86399")
        eventually(lambda: first.state_of(endless) == "running", within_s=30)
        tokens = first.get("/api/v1/tokens").json()["results"]
        assert first.delete(f"/api/v1/tokens/{tokens[0]['id']}").status_code == 204
        assert first.get("/api/v1/me").status_code == 401
        below = descendants(first.process.pid)
        first.process.send_signal(signal.SIGINT)
        assert first.process.wait(40) == 0
        assert not alive(below)
        assert subprocess.run(["pgrep", "-fx", "sleep 86399"], check=False).returncode == 1
    with platform(directory) as second:
        assert second.credentials["token"] != first.credentials["token"], "a revoked token is replaced"
        assert second.credentials["password"] == first.credentials["password"]
        assert second.state_of(job) == "succeeded"
        eventually(lambda: second.state_of(endless) in ("failed", "queued"), within_s=30)
        refused_because_of(second, directory)
        assert second.works()


def refused_because_of(running: Platform, directory: Path) -> None:
    """A second one on the same directory, or on the same port, says why it does not start."""
    with start(directory, free_port()) as second:
        assert second.wait(60) == 1
    assert f"is in use by process {running.process.pid}" in output_of(directory).read_text()
    other = directory.with_name("other")
    port = int(running.credentials["url"].rsplit(":", 1)[1])
    with start(other, port) as third:
        assert third.wait(60) == 1
    assert f"Port {port}" in output_of(other).read_text()


def test_whatever_is_killed_comes_back_and_jobs_go_on(directory: Path) -> None:
    with platform(directory) as running:
        job = running.submit("sleep", "25")
        eventually(lambda: running.state_of(job) == "running", within_s=30)
        for name in ("worker", "web", "gateway", "valkey", "postgres", "beat", "agent-node-1", "agent-node-2"):
            running.kill(name)
            eventually(running.works, within_s=20)
        below = descendants(running.process.pid)
        running.process.kill()
        eventually(lambda: not alive(below), within_s=3)
    with platform(directory) as again:
        assert {**again.credentials, "url": ""} == {**running.credentials, "url": ""}
        eventually(lambda: again.state_of(job) == "succeeded", within_s=60)
        assert again.get(f"/api/v1/jobs/{job}").json()["attempt"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts PostgreSQL as another user")
def test_it_works_below_a_closed_home_with_a_long_name(directory: Path) -> None:
    before = set(ELSEWHERE.glob("*"))
    deep = directory.parent / ("a-directory-with-a-long-name-" * 4) / "and-one-more-level" / ".aistation"
    deep.parent.mkdir(parents=True)
    directory.parent.chmod(0o700)
    try:
        with platform(deep) as running:
            assert running.works()
    finally:
        for made in set(ELSEWHERE.glob("*")) - before:
            shutil.rmtree(made)
