"""Folders below the data root, with tenants who place links in their way."""

import os
from pathlib import Path

import pytest

from agentapi.v1 import ErrorCode, Mount
from gpuagent.folders import bind_folders
from gpuagent.runtime.base import TaskError


def _bind(root: Path, source: str, target: str = "/workspace") -> Path:
    (folder,) = bind_folders(root, [Mount(source=source, target=target)], None)
    return folder.source


def test_missing_folders_are_made(tmp_path: Path) -> None:
    assert _bind(tmp_path / "data", "home/alice") == tmp_path / "data" / "home" / "alice"
    assert (tmp_path / "data" / "home" / "alice").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_new_folders_belong_to_their_owner_and_old_ones_are_left(tmp_path: Path) -> None:
    (tmp_path / "group").mkdir()
    bind_folders(tmp_path, [Mount(source="group/new", target="/w")], (1234, 1235))
    assert (tmp_path / "group").stat().st_uid == 0
    stat = (tmp_path / "group" / "new").stat()
    assert (stat.st_uid, stat.st_gid) == (1234, 1235)


@pytest.mark.parametrize("source", ["", "/etc", "../x", "a/../../x", "a/..", "a\0b"])
def test_a_source_outside_of_the_root_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(TaskError) as caught:
        _bind(tmp_path, source)
    assert caught.value.code == ErrorCode.MOUNT


@pytest.mark.parametrize("target", ["", "relative", "/", "/a/../etc"])
def test_a_target_must_be_an_absolute_path(tmp_path: Path, target: str) -> None:
    with pytest.raises(TaskError):
        _bind(tmp_path, "a", target)


@pytest.mark.parametrize("link_to", ["/", "/etc", "../other", "."])
@pytest.mark.parametrize("source", ["a/x", "a/x/etc", "a/x/y/z"])
def test_links_are_never_followed(tmp_path: Path, link_to: str, source: str) -> None:
    """B065: neither as the last step nor on the way."""
    (tmp_path / "a").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "a" / "x").symlink_to(link_to)
    with pytest.raises(TaskError) as caught:
        _bind(tmp_path, source)
    assert caught.value.code == ErrorCode.MOUNT


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("", encoding="ascii")
    with pytest.raises(TaskError):
        _bind(tmp_path, "a/b")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").symlink_to("/etc")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for source in ("b/c/d", "a/x/y", "a/x"):
        try:
            _bind(tmp_path, source)
        except TaskError:
            continue
    assert len(list(Path("/proc/self/fd").iterdir())) == before
