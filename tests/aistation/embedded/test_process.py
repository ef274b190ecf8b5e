"""Children end with us, are reaped with all that they started, and say in their log what went wrong."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from aistation.embedded.process import Account, Child, StartError
from tests.aistation.embedded.waiting import eventually, is_alive


def a_child(tmp_path: Path, *command: str) -> Child:
    return Child("program", command, log=tmp_path / "program.log", environment={"PATH": os.environ["PATH"]})


def test_a_stopped_child_ends_with_its_signal(tmp_path: Path) -> None:
    child = a_child(tmp_path, "sleep", "60")
    child.spawn()
    assert child.is_running
    child.stop()
    assert child.exit_code == -signal.SIGTERM


def test_a_child_that_ignores_the_signal_is_killed_after_its_grace(tmp_path: Path) -> None:
    child = a_child(tmp_path, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
    child.grace_s = 0
    child.spawn()
    eventually(lambda: child.log.exists() and "up" in child.log.read_text())
    child.stop()
    assert child.exit_code == -signal.SIGKILL


def test_what_a_killed_child_left_in_its_session_ends_with_it(tmp_path: Path) -> None:
    child = a_child(tmp_path, "sh", "-c", "sleep 60 & echo $!; wait")
    child.spawn()
    eventually(lambda: child.log.exists() and child.log.read_text().strip() != "")
    grandchild = int(child.log.read_text())
    child.send(signal.SIGKILL)
    eventually(lambda: not child.is_running)
    eventually(lambda: not is_alive(grandchild))


def test_a_missing_program_says_so_in_the_log_and_in_the_error(tmp_path: Path) -> None:
    child = a_child(tmp_path, "/no/such/program")
    child.is_ready = lambda: False
    with pytest.raises(StartError, match="No such file"):
        child.wait_until_ready(0.2)


def test_a_function_runs_in_the_child_and_not_here(tmp_path: Path) -> None:
    child = Child("function", lambda: os.write(1, str(os.getpid()).encode()), log=tmp_path / "function.log")
    child.spawn()
    eventually(lambda: not child.is_running)
    assert child.exit_code == 0
    assert int(child.log.read_text()) != os.getpid()


def test_no_child_outlives_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "import pathlib, time\n"
        "from aistation.embedded.process import Child\n"
        f"child = Child('c', ['sleep', '60'], log=pathlib.Path({str(tmp_path / 'c.log')!r}),"
        " environment={'PATH': '/usr/bin:/bin'})\n"
        "child.spawn(); print(child.pid, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        eventually(lambda: is_alive(pid))
        parent.kill()
    eventually(lambda: not is_alive(pid), within_s=2)


def test_an_account_reaches_only_what_every_parent_lets_it_enter() -> None:
    nobody = Account(uid=65534, gid=65534)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        closed = Path(name)
        inside = closed / "inside"
        inside.mkdir(mode=0o711)
        closed.chmod(0o711)
        assert nobody.reaches(inside)
        closed.chmod(0o700)
        assert not nobody.reaches(inside)
