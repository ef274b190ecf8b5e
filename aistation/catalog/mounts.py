"""Turns the folders that a workload asks for into mounts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aistation.catalog import services
from aistation.catalog.models import Folder
from aistation.catalog.paths import container_path
from aistation.catalog.selectors import HOME, SHARED, mountable_folders
from aistation.core.errors import FieldError, InvalidInputError
from aistation.tenancy.models import Group
from aistation.tenancy.policy import Action, Actor, allows

MOST_MOUNTS: Final = 16
MODES: Final = ("ro", "rw")


def resolve_mounts(
    actor: Actor, group: Group, wanted: Sequence[Mapping[str, str]], now: datetime
) -> list[dict[str, Any]]:
    """``[{folder, path, mode}]`` as ``[{folder: uid, name, path, mode}]``, in the order asked for.

    ``folder`` is a folder's id or name: the person's own, or one of ``group``. ``home`` (own) and ``shared`` (the
    group's) always exist. A folder of anybody else is unknown. Raises InvalidInputError that names every fault.
    """
    if len(wanted) > MOST_MOUNTS:
        error = FieldError("folders", "too_many", f"Mount at most {MOST_MOUNTS} folders.")
        raise InvalidInputError("Too many folders.", errors=[error])
    if not wanted:
        return []
    folders = _by_id_and_name(actor, group, {want["folder"] for want in wanted}, now)
    may_write = allows(actor, Action.CREATE_FOLDER, group_id=group.pk)
    mounts: list[dict[str, Any]] = []
    errors: list[FieldError] = []
    for index, want in enumerate(wanted):
        found = folders.get(want["folder"], [])
        path = container_path(want["path"])
        mode = want.get("mode", "rw")
        faults = [
            _folder_fault(want["folder"], found, group),
            _path_fault(path, [mount["path"] for mount in mounts]),
            _mode_fault(mode, found, may_write=may_write),
        ]
        errors += [FieldError(f"folders[{index}].{e.field}", e.code, e.message) for e in faults if e]
        if found:
            mounts.append({"folder": found[0].uid, "name": found[0].name, "path": path, "mode": mode})
    if errors:
        raise InvalidInputError("The folders cannot be mounted so.", errors=errors)
    return mounts


def _by_id_and_name(actor: Actor, group: Group, keys: set[str], now: datetime) -> dict[str, list[Folder]]:
    if HOME in keys:
        services.home_of(actor.user_id, now)
    if SHARED in keys:
        services.shared_of(group, now)
    found: dict[str, list[Folder]] = {}
    for folder in mountable_folders(actor.user_id, group.pk):
        found.setdefault(folder.name, []).append(folder)
        found[folder.uid] = [folder]
    return found


def _folder_fault(key: str, found: Sequence[Folder], group: Group) -> FieldError | None:
    if not found:
        return FieldError("folder", "unknown_folder", f"There is no folder {key} of yours or of {group.name}.")
    if len(found) > 1:
        ids = " or ".join(folder.uid for folder in found)
        return FieldError("folder", "ambiguous", f"You and {group.name} both have a folder {key}. Give its id: {ids}.")
    return None


def _path_fault(path: str | None, taken: Sequence[str | None]) -> FieldError | None:
    if path is None:
        message = "Give an absolute path without '..' outside the system directories, e.g. /workspace."
        return FieldError("path", "bad_path", message)
    if path in taken:
        return FieldError("path", "taken", f"Two folders cannot both be at {path}.")
    return None


def _mode_fault(mode: str, found: Sequence[Folder], *, may_write: bool) -> FieldError | None:
    if mode not in MODES:
        return FieldError("mode", "unknown_choice", "Choose ro or rw.")
    if mode == "rw" and not may_write and any(folder.group_id is not None for folder in found):
        return FieldError("mode", "read_only", "Your role in the group only allows ro.")
    return None
