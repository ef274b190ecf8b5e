"""Finds a task's folders below the data root without ever following a link.

Tenants write inside their folders, so nothing below the data root is trusted: each step is opened with
O_NOFOLLOW relative to the one before. What stands at the source must be a real directory; missing ones are
made.
"""

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from agentapi.v1 import ErrorCode, Mount
from gpuagent.runtime.base import BoundFolder, TaskError

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def bind_folders(data_root: Path, mounts: Iterable[Mount], owner: tuple[int, int] | None) -> tuple[BoundFolder, ...]:
    """The folders of ``mounts``; missing ones are made and given to ``owner`` (uid, gid) if there is one.

    TaskError when one lies outside of the data root, crosses a link or cannot be made.
    """
    data_root.mkdir(parents=True, exist_ok=True)
    return tuple(_bind(data_root, mount, owner) for mount in mounts)


def _bind(data_root: Path, mount: Mount, owner: tuple[int, int] | None) -> BoundFolder:
    source, target = PurePosixPath(mount.source), PurePosixPath(mount.target)
    if not source.parts or source.is_absolute() or ".." in source.parts or "\0" in mount.source:
        raise TaskError(ErrorCode.MOUNT, "a folder's source is not below the data root")
    if not target.is_absolute() or ".." in target.parts or len(target.parts) < 2:
        raise TaskError(ErrorCode.MOUNT, "a folder's target is not an absolute path below /")
    fd = os.open(data_root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in source.parts:
            fd = _step(fd, part, owner)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise TaskError(ErrorCode.MOUNT, f"folder {mount.source}: {why} (links are not followed)") from error
    finally:
        os.close(fd)
    return BoundFolder(data_root / source, str(target), mount.read_only)


def _step(parent: int, name: str, owner: tuple[int, int] | None) -> int:
    """Open one directory in ``parent``, which is closed."""
    try:
        fd = os.open(name, _OPEN, dir_fd=parent)
    except FileNotFoundError:
        os.mkdir(name, 0o755, dir_fd=parent)
        if owner is not None:
            os.chown(name, *owner, dir_fd=parent, follow_symlinks=False)
        fd = os.open(name, _OPEN, dir_fd=parent)
    os.close(parent)
    return fd
