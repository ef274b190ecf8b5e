"""Programs that run below us and cannot outlive us."""

import ctypes
import os
import pwd
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)
_CANNOT_START: Final = 127
_LOG_KEPT_BYTES: Final = 16 * 1024 * 1024


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
    """One program below us, in a session of its own. It ends when we end, however we end.

    ``program`` is a command line, or a function that the forked child runs with all that we have loaded.
    ``environment`` is all of a command's environment. ``orphan_signal`` is what the kernel sends when the *thread*
    that started it is gone: start children from the main thread. ``is_ready`` says whether it does its work;
    programs without such a sign are ready at once. ``keep_descriptors`` are the open files that it inherits.
    """

    name: str
    program: Sequence[str] | Callable[[], object]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None
    account: Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL
    grace_s: int = 10
    is_ready: Callable[[], bool] = lambda: True
    keep_descriptors: tuple[int, ...] = ()
    pid: int | None = None
    exit_code: int | None = None  # of the last one that ended; negative: the signal that ended it

    def spawn(self) -> None:
        """Start it, not waiting until it is ready."""
        _rotate(self.log)
        sys.stdout.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(parent)
        self.pid, self.exit_code = pid, None

    @property
    def is_running(self) -> bool:
        """False before the start and after the end. What it left running in its session ends with it."""
        if self.pid is None:
            return False
        try:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return True
            _kill_session(self.pid)  # before the number is free for others
            self.exit_code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            self.exit_code = None
        self.pid = None
        return False

    def wait_until_ready(self, timeout_s: float) -> None:
        """Return once it is ready, starting it again when it ends before; StartError after the timeout."""
        deadline = time.monotonic() + timeout_s
        while True:
            if not self.is_running:
                self.spawn()
            if self.is_ready() and self.is_running:
                return
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} did not start within {timeout_s:.0f} s: {last_lines(self.log)}")
            time.sleep(0.05)

    def send(self, number: signal.Signals) -> None:
        """Signal it if it runs."""
        if self.is_running and self.pid is not None:
            os.kill(self.pid, number)

    def stop(self) -> None:
        """End it: politely, then after the grace period by force."""
        self.send(self.stop_signal)
        deadline = time.monotonic() + self.grace_s
        while self.is_running:
            if time.monotonic() > deadline:
                self.send(signal.SIGKILL)
            time.sleep(0.02)

    def _become(self, parent: int) -> NoReturn:
        code = _CANNOT_START
        try:
            self._leave_parent(parent)
            if callable(self.program):
                self.program()
                code = 0
            else:
                signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, other programs count on it
                os.execvpe(self.program[0], list(self.program), dict(self.environment))  # noqa: S606 - a list, and no shell is wanted
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _leave_parent(self, parent: int) -> None:
        os.setsid()
        _reset_signals()
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for target, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
            os.dup2(source, target)
        _close_all_but({0, 1, 2, *self.keep_descriptors})
        for descriptor in self.keep_descriptors:
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - takes no keywords
        if self.directory:
            os.chdir(self.directory)
        if self.account:
            os.setgroups([])
            os.setgid(self.account.gid)
            os.setuid(self.account.uid)
        bind_to_parent(self.orphan_signal, parent)  # last: a change of user would undo it


def bind_to_parent(orphan_signal: signal.Signals, parent: int | None = None) -> None:
    """Have the kernel signal this process when the thread that started it is gone."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(orphan_signal))
    if parent is not None and os.getppid() != parent:  # it ended before the call above
        os.kill(os.getpid(), signal.SIGKILL)


def last_lines(log: Path, limit: int = 2000) -> str:
    """The end of a log, for an error message."""
    try:
        data = log.read_bytes()
    except OSError:
        return "(no log)"
    return data[-limit:].decode(errors="replace").strip() or "(empty log)"


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _close_all_but(kept: set[int]) -> None:
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names of numbers, not paths
        if int(entry) not in kept:
            try:
                os.close(int(entry))
            except OSError:  # the one that listed them
                continue


def _rotate(log: Path) -> None:
    if log.exists() and log.stat().st_size > _LOG_KEPT_BYTES:
        log.replace(log.with_name(log.name + ".1"))


def _kill_session(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
