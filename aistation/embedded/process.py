"""Programs that run below us and cannot outlive us."""

import ctypes
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class StartError(Exception):
    """A program did not come up. The message says which and what its log says last."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine to run a program as."""

    uid: int
    gid: int

    @classmethod
    def unprivileged(cls) -> "Account | None":
        """The account for programs that refuse to run as root; None: we are not root, nothing to change."""
        if os.geteuid() != 0:
            return None
        for name in ("postgres", "nobody"):
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(entry.pw_uid, entry.pw_gid)
        return cls(65534, 65534)

    def reaches(self, path: Path) -> bool:
        """True when this account may enter the directory and every one above it."""
        return all(self._enters(directory) for directory in (path, *path.parents) if directory.exists())

    def _enters(self, directory: Path) -> bool:
        status = directory.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & 0o100)
        return bool(status.st_mode & (0o010 if status.st_gid == self.gid else 0o001))


@dataclass(slots=True)
class Child:
    """One program. It is started in a session of its own and ends when we end, however we end.

    ``orphan_signal`` is what the kernel sends it when the *thread* that started it is gone: start children from the
    main thread. ``is_ready`` says whether it does its work; programs without such a sign are ready at once.
    """

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None
    account: Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL
    grace_s: int = 10
    is_ready: Callable[[], bool] = lambda: True
    keep_descriptors: tuple[int, ...] = ()
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def spawn(self) -> None:
        """Start it, not waiting until it is ready."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=dict(self.environment),
                start_new_session=True,
                pass_fds=self.keep_descriptors,
                preexec_fn=_bind_to_parent(self.orphan_signal),
                user=self.account.uid if self.account else None,
                group=self.account.gid if self.account else None,
                extra_groups=[] if self.account else None,
            )

    def poll(self) -> int | None:
        """None while it runs, else how it ended. What it left running in its session ends with it."""
        if self._process is None:
            return 0
        if self._process.returncode is None and _has_ended(self._process.pid):
            _kill_group(self._process.pid)  # before the id is free for others
        return self._process.poll()

    def wait_until_ready(self, timeout_s: float) -> None:
        """Return once it is ready, starting it again when it ends before; StartError after the timeout."""
        deadline = time.monotonic() + timeout_s
        while True:
            if self.poll() is not None:
                self.spawn()
            if self.is_ready() and self.poll() is None:
                return
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} did not start within {timeout_s:.0f} s: {last_lines(self.log)}")
            time.sleep(0.05)

    def request_stop(self) -> None:
        if self._process and self.poll() is None:
            self._process.send_signal(self.stop_signal)

    def stop(self) -> None:
        """End it: politely, then after the grace period by force."""
        if self._process is None:
            return
        self.request_stop()
        deadline = time.monotonic() + self.grace_s
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.poll() is None:
            _kill_group(self._process.pid)
            self._process.wait()


def last_lines(log: Path, limit: int = 2000) -> str:
    """The end of a log, for an error message."""
    try:
        data = log.read_bytes()
    except OSError:
        return "(no log)"
    return data[-limit:].decode(errors="replace").strip() or "(empty log)"


def _bind_to_parent(orphan_signal: signal.Signals) -> Callable[[], None]:
    parent = os.getpid()

    def bind() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(orphan_signal))
        if os.getppid() != parent:  # it ended before the call above
            os.kill(os.getpid(), signal.SIGKILL)

    return bind


def _has_ended(pid: int) -> bool:
    """True when the child is over but not yet reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
