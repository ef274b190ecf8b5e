"""The state directory, also one that an agent of version 1 left behind."""

import shutil
from pathlib import Path

import pytest

from agentapi.v1 import ContainerPhase
from gpuagent.spool import STDERR
from gpuagent.store import Credential, Cursor, Store, StoreVersionError
from tests.gpuagent.specs import a_spec

_VERSION_1 = Path(__file__).parent / "store_v1"


@pytest.fixture
def old(tmp_path: Path) -> Store:
    shutil.copytree(_VERSION_1, tmp_path / "state")
    return Store(tmp_path / "state")


def test_a_directory_of_version_1_is_read(old: Store) -> None:
    assert old.credential() == Credential("node-1", "secret", "abc")
    (task,) = old.load_tasks()  # the one whose order is broken is passed over
    assert (task.spec.task_id, task.spec.attempt, task.spec.command) == ("t-running", 2, ("sleep", "60"))
    assert task.report is not None
    assert (task.report.phase, task.boot_id) == (ContainerPhase.RUNNING, "boot-1")
    assert old.cursor("t-running") == Cursor(15, 10, is_truncated=False)
    reader = old.open_log("t-running")
    assert reader.read(100) == [(STDERR, 10, b"abc")]
    reader.close()


def test_a_directory_of_a_newer_agent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("2", encoding="ascii")
    with pytest.raises(StoreVersionError):
        Store(tmp_path)


def test_what_was_saved_is_read_again_and_is_private(tmp_path: Path) -> None:
    store = Store(tmp_path)
    spec = a_spec("true", env={"TOKEN": "secret"})
    store.save_spec(spec)
    store.save_credential(Credential("n", "t", "d"))
    (task,) = Store(tmp_path).load_tasks()
    assert (task.spec, task.report) == (spec, None)
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0 or (path == tmp_path / "tasks" and path.stat().st_mode & 0o077 == 0)


def test_a_removed_task_is_gone_and_its_cursor_is_not_written_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    spec = a_spec("true")
    store.save_spec(spec)
    store.remove_task(spec.task_id)
    store.save_cursor(spec.task_id, Cursor(1, 2))
    assert list(store.load_tasks()) == []
    assert store.cursor(spec.task_id) == Cursor()


def test_broken_files_count_as_missing(old: Store) -> None:
    directory = old.root / "tasks" / "t-running"
    (directory / "report.json").write_bytes(b"{")
    (directory / "cursor.json").write_bytes(b"[1]")
    (task,) = old.load_tasks()
    assert (task.report, task.boot_id) == (None, "")
    assert old.cursor("t-running") == Cursor()
