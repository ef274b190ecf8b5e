"""Where the embedded programs keep things, and the lock that keeps a data directory to one supervisor."""

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from aistation.embedded.process import Account

_LONGEST_SOCKET_NAME: Final = len("/.s.PGSQL.5432.lock")
_SOCKET_PATH_LIMIT: Final = 107  # bytes in sockaddr_un.sun_path, less the closing zero


class DirectoryInUseError(Exception):
    """Another supervisor holds this data directory."""


class DirectoryLock:
    """Held as long as this process lives, and by no other; a killed holder releases it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file = (directory / "lock").open("a+")

    def acquire(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise DirectoryInUseError(
                f"{self.directory} is in use by process {holder}. "
                "Stop that one first, or name another directory with --data-dir."
            ) from None
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        self._file.close()


def socket_directory(wanted: Path, account: Account | None = None) -> Path:
    """A directory for unix sockets: the wanted one, or when its path is too long or out of reach a short one.

    The short one depends on the wanted path only, so that a second start finds it again.
    """
    fits = len(os.fsencode(wanted)) + _LONGEST_SOCKET_NAME <= _SOCKET_PATH_LIMIT
    wanted.parent.mkdir(parents=True, exist_ok=True)
    if fits and (account is None or account.reaches(wanted.parent)):
        return private_directory(wanted, account)
    digest = hashlib.sha256(os.fsencode(wanted)).hexdigest()[:12]
    return private_directory(Path(tempfile.gettempdir()) / f"aistation-{os.geteuid()}-{digest}", account)


def private_directory(path: Path, account: Account | None = None) -> Path:
    """Create the directory for one account alone. PermissionError: somebody else's directory is in its place."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = account.uid if account else os.geteuid()
    status = path.lstat()
    if status.st_uid not in (owner, os.geteuid()) or path.is_symlink():
        raise PermissionError(f"{path} belongs to another user; remove it and start again")
    if status.st_uid != owner and account:
        os.chown(path, account.uid, account.gid)
    path.chmod(0o700)
    return path
