"""The agent's memory on disk: its credential, and per task the order, the last report and the log.

Containers and their labels are the first source after a restart; this is the second. Files are replaced
whole, so that a crash leaves the old or the new one.

    version  credential.json  tasks/<task id>/{spec.json, report.json, log, cursor.json}
"""

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from agentapi.v1 import TaskReport, TaskSpec
from gpuagent.spool import SpoolReader

log = logging.getLogger(__name__)

VERSION: Final = 1


class StoreVersionError(Exception):
    """The state directory was written by a newer agent."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What enrolment gave this node. ``join_digest``: of the join token that was traded for it."""

    node_name: str
    node_token: str
    join_digest: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a log has been stored by the server: a place in the spool file, its log offset, and whether the mark
    of a log that reached its limit lies before it."""

    position: int = 0
    offset: int = 0
    is_truncated: bool = False


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as it was when the agent last ran, ``boot_id`` being that of its last report."""

    spec: TaskSpec
    report: TaskReport | None
    boot_id: str


class Store:
    """Reads and writes the state directory, which the caller has locked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._tasks = root / "tasks"
        self._tasks.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._check_version()

    def credential(self) -> Credential | None:
        try:
            return Credential(**json.loads((self.root / "credential.json").read_bytes()))
        except FileNotFoundError:
            return None

    def save_credential(self, credential: Credential) -> None:
        _replace(self.root / "credential.json", json.dumps(asdict(credential)).encode(), durable=True)

    def log_path(self, task_id: str) -> Path:
        return self._tasks / task_id / "log"

    def notice_directory(self, task_id: str) -> Path:
        """Where the task's own processes are told what is to come. They may be another user."""
        directory = self._tasks / task_id / "notice"
        directory.mkdir(exist_ok=True, mode=0o755)
        return directory

    def save_notice(self, task_id: str, notice: Mapping[str, object]) -> None:
        path = self.notice_directory(task_id) / "stop"
        _replace(path, json.dumps(notice).encode())
        path.chmod(0o644)

    def save_spec(self, spec: TaskSpec) -> None:
        (self._tasks / spec.task_id).mkdir(exist_ok=True, mode=0o700)
        _replace(self._tasks / spec.task_id / "spec.json", spec.model_dump_json().encode())

    def save_report(self, report: TaskReport, boot_id: str) -> None:
        body = {"boot_id": boot_id, "report": report.model_dump(mode="json")}
        _replace(self._tasks / report.task_id / "report.json", json.dumps(body).encode())

    def cursor(self, task_id: str) -> Cursor:
        """Where to go on with a log. Wrong or missing means from the start: the server drops what it has."""
        try:
            return Cursor(**json.loads((self._tasks / task_id / "cursor.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return Cursor()

    def open_log(self, task_id: str) -> SpoolReader:
        """A reader of the task's log, at its cursor. OSError when the task has been removed."""
        cursor = self.cursor(task_id)
        reader = SpoolReader(self.log_path(task_id), cursor.position, cursor.offset)
        reader.is_truncated = cursor.is_truncated
        return reader

    def save_cursor(self, task_id: str, cursor: Cursor) -> None:
        """Keep the cursor of a task; nothing when the task has been removed meanwhile."""
        try:
            _replace(self._tasks / task_id / "cursor.json", json.dumps(asdict(cursor)).encode())
        except FileNotFoundError:
            return

    def load_tasks(self) -> Iterator[StoredTask]:
        """All tasks whose order can be read. An unreadable report counts as none."""
        for directory in sorted(self._tasks.iterdir()):
            try:
                spec = TaskSpec.model_validate_json((directory / "spec.json").read_bytes())
            except (OSError, ValidationError) as error:
                log.warning("ignoring stored task %s: %s", directory.name, type(error).__name__)
                continue
            report, boot_id = _load_report(directory / "report.json")
            yield StoredTask(spec, report, boot_id)

    def remove_task(self, task_id: str) -> None:
        shutil.rmtree(self._tasks / task_id, ignore_errors=True)

    def _check_version(self) -> None:
        path = self.root / "version"
        try:
            found = int(path.read_text(encoding="ascii"))
        except FileNotFoundError:
            _replace(path, str(VERSION).encode())
            return
        if found > VERSION:
            raise StoreVersionError(f"{self.root} has version {found}, this agent knows {VERSION}: update the agent")


def _load_report(path: Path) -> tuple[TaskReport | None, str]:
    try:
        body = json.loads(path.read_bytes())
        return TaskReport.model_validate(body["report"]), str(body["boot_id"])
    except FileNotFoundError:
        return None, ""
    except (ValueError, KeyError, TypeError) as error:
        log.warning("ignoring stored report %s: %s", path, type(error).__name__)
        return None, ""


def _replace(path: Path, body: bytes, *, durable: bool = False) -> None:
    """Write a file whole, readable by this user alone. ``durable``: on the disk before it returns."""
    temporary = path.with_name(f".{path.name}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(body)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
