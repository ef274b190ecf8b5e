"""Keeps one plain process as an engine's shim keeps a container: the agent may die, this goes on.

The agent starts one small single-threaded interpreter with this module, and asks it for each task to fork a
supervisor. The supervisor runs the command in a session of its own, copies its output into the task's spool,
adopts and reaps what the command leaves behind, kills that when the command ends, and writes down how it
ended. Forking from here costs a few milliseconds; starting an interpreter for each task would cost a
hundred times its memory.

Only the standard library and ``gpuagent.spool`` are imported.

In the container's directory: ``lock`` is held by its only supervisor, ``run.json`` appears when the command
runs, ``exit.json`` when nothing of it runs any more.
"""

import contextlib
import ctypes
import errno
import fcntl
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from gpuagent.spool import MAX_FRAME, STDERR, STDOUT, SpoolWriter

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_KILL_TIMEOUT_S = 5.0  # a process that the kernel cannot end within this is left behind
_OOM_SCORE_ADJ = b"500"  # rather a task than the agent

_libc = ctypes.CDLL(None, use_errno=True)


def main(control_fd: int) -> None:
    """Fork one supervisor for each descriptor that arrives; end when the agent's side is closed."""
    os.chdir("/")
    _libc.prctl(_PR_SET_NAME, b"aistation-fork", 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors are reaped by the kernel
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # aimed at the agent's process group; the closed socket ends us
    gc.disable()
    gc.freeze()  # keeps the pages shared with the supervisors
    control = socket.socket(fileno=control_fd)
    while True:
        data, fds, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        os.set_inheritable(fds[0], False)  # noqa: FBT003 - received descriptors are inherited by default
        if os.fork() == 0:
            control.close()
            _supervise_and_exit(fds[0])
        os.close(fds[0])


def read_start_ticks(pid: int) -> int:
    """When the process started, in clock ticks since boot: with the pid its name. OSError when there is none."""
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])


def _supervise_and_exit(request_fd: int) -> None:
    code = 1
    try:
        os.setsid()
        _libc.prctl(_PR_SET_NAME, b"aistation-task", 0, 0, 0)
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with socket.socket(fileno=request_fd) as peer:
            _supervise(peer)
        code = 0
    except BaseException as error:
        sys.stderr.write(f"supervisor: {type(error).__name__}: {error}\n")
    finally:
        os._exit(code)


def _supervise(peer: socket.socket) -> None:
    request = _read_request(peer)
    directory = Path(request["directory"])
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _answer(peer, {"error": errno.EBUSY, "message": "it is being started already"})
        return
    if (directory / "run.json").exists():
        _answer(peer, {"error": errno.EEXIST, "message": "it was started before"})
        return
    child = _Child(request)
    if child.failure is not None:
        _write_json(directory, "exit.json", {"finished_at": time.time(), **child.failure})
        _answer(peer, child.failure)
        return
    run = {
        "supervisor": os.getpid(),
        "supervisor_ticks": read_start_ticks(os.getpid()),
        "pid": child.pid,
        "pid_ticks": read_start_ticks(child.pid),
        "started_at": time.time(),
        "boot_id": request["boot_id"],
    }
    _write_json(directory, "run.json", run)
    _answer(peer, run)
    peer.close()
    del request  # holds the environment
    status = child.copy_until_it_ends()
    left_behind = _kill_descendants()
    child.copy_rest()
    end = {"code": _exit_code(status), "finished_at": time.time(), "left_behind": left_behind}
    _write_json(directory, "exit.json", end)


class _Child:
    """The command, its two pipes and its spool. ``failure`` says why it could not be executed."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._spool = SpoolWriter(request["spool"], request["spool_limit"])
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        said_read, said_write = os.pipe2(os.O_CLOEXEC)
        self._wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)  # before the fork: no end goes unnoticed
        self.pid = os.fork()
        if self.pid == 0:
            _become_command(request, out_write, err_write, said_write)
        for fd in (out_write, err_write, said_write):
            os.close(fd)
        said = os.read(said_read, 4096)
        os.close(said_read)
        self.failure = json.loads(said) if said else None
        self._streams = {out_read: STDOUT, err_read: STDERR}
        for fd in self._streams:
            os.set_blocking(fd, False)

    def copy_until_it_ends(self) -> int:
        """Copy output until the command itself has ended; its wait status. Reaps orphans meanwhile."""
        poll = select.poll()
        for fd in (*self._streams, self._wake_read):
            poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd != self._wake_read:
                    if not self._copy_once(fd):
                        poll.unregister(fd)
                    continue
                with contextlib.suppress(BlockingIOError):
                    os.read(fd, 4096)
                status = self._reap()
                if status is not None:
                    return status

    def copy_rest(self) -> None:
        """Copy what the pipes still hold."""
        for fd in tuple(self._streams):
            with contextlib.suppress(BlockingIOError):
                while self._copy_once(fd, at_once=True):
                    pass
        self._spool.close()

    def _copy_once(self, fd: int, *, at_once: bool = False) -> bool:
        """Copy one piece. False: the stream is over."""
        try:
            data = os.read(fd, MAX_FRAME)
        except BlockingIOError:
            if at_once:
                raise
            return True
        if not data:
            os.close(fd)
            del self._streams[fd]
            return False
        try:
            self._spool.write(self._streams[fd], data)
        except OSError:  # the disk is full: the log ends here, the command goes on
            with contextlib.suppress(OSError):
                self._spool.mark_truncated()
        return True

    def _reap(self) -> int | None:
        """Collect all that ended; the command's status once it is among them."""
        found = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self.pid:
                    found = status
        return found


def _become_command(request: dict[str, Any], out_fd: int, err_fd: int, said_fd: int) -> None:
    """In the forked child: turn into the command, or say why not and end."""
    try:
        os.setsid()
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_bytes(_OOM_SCORE_ADJ)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out_fd, 1)
        os.dup2(err_fd, 2)
        os.umask(0o022)
        os.chdir(request["cwd"])
        command, env = request["command"], request["env"]
        os.execvpe(command[0], command, env)  # noqa: S606 - running it without a shell is the point
    except OSError as error:
        failure = {"error": error.errno, "message": os.strerror(error.errno or 0)}
    except ValueError:
        failure = {"error": errno.EINVAL, "message": "the command or the environment holds a character that none may"}
    os.write(said_fd, json.dumps(failure).encode())
    os._exit(127)


def _kill_descendants() -> int:
    """End all that the command left behind; how many the kernel could not end."""
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return 0
        children = _children()
        if time.monotonic() > deadline:
            return len(children)
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        select.select([], [], [], 0.002)


def _children() -> list[int]:
    me = os.getpid()
    try:
        return [int(word) for word in Path(f"/proc/{me}/task/{me}/children").read_bytes().split()]
    except FileNotFoundError:  # a kernel without that file
        names = (path.name for path in Path("/proc").iterdir())
        return [pid for pid in map(int, filter(str.isdigit, names)) if _parent(pid) == me]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _exit_code(status: int) -> int:
    """0..255 as shells say it: 128 + n when signal n ended it."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _read_request(peer: socket.socket) -> dict[str, Any]:
    pieces = []
    while piece := peer.recv(1024 * 1024):
        pieces.append(piece)
    request: dict[str, Any] = json.loads(b"".join(pieces))
    return request


def _answer(peer: socket.socket, body: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the agent may be gone; the files say the same
        peer.sendall(json.dumps(body).encode())


def _write_json(directory: Path, name: str, body: dict[str, Any]) -> None:
    temporary = directory / f".{name}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(body, file)
    temporary.replace(directory / name)
