"""Which folders a workload may mount, and where."""

import posixpath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aistation.catalog.mounts import MOST_MOUNTS, resolve_mounts
from aistation.catalog.paths import container_path
from aistation.catalog.services import create_folder, home_of, shared_of
from aistation.core.errors import InvalidInputError
from aistation.tenancy.models import Group
from aistation.tenancy.policy import Role
from aistation.tenancy.selectors import actor_of
from tests.factories.world import T0, Site, a_group, a_site, a_user


@pytest.fixture
def site(db: None) -> Site:
    return a_site()


def mounted(
    site: Site, *wanted: tuple[str, str] | tuple[str, str, str], group: Group | None = None
) -> list[dict[str, Any]]:
    mounts = [dict(zip(("folder", "path", "mode"), want, strict=False)) for want in wanted]
    return resolve_mounts(site.actor, group or site.group, mounts, T0)


def refused(site: Site, *wanted: Any) -> dict[str, str]:
    with pytest.raises(InvalidInputError) as error:
        mounted(site, *wanted)
    return {fault.field: fault.code for fault in error.value.errors}


def test_home_and_shared_exist_for_everybody_and_are_made_once(site: Site) -> None:
    first = mounted(site, ("home", "/work"), ("shared", "/data", "ro"))
    assert first == mounted(site, ("home", "/work"), ("shared", "/data", "ro"))
    assert [(mount["name"], mount["path"], mount["mode"]) for mount in first] == [
        ("home", "/work", "rw"),
        ("shared", "/data", "ro"),
    ]
    assert first[0]["folder"] == home_of(site.user, T0).uid
    assert first[1]["folder"] == shared_of(site.group, T0).uid


def test_another_persons_or_groups_folder_is_as_unknown_as_none(site: Site) -> None:
    mallory = a_user("mallory")
    other = a_group("speech", alice=Role.MEMBER)
    foreign = create_folder(name="private", user_id=mallory.pk, now=T0, actor=None)
    elsewhere = create_folder(name="data", group=other, now=T0, actor=None)
    for key in (foreign.uid, "private", elsewhere.uid, "data", "no-such", home_of(mallory, T0).uid):
        assert refused(site, (key, "/work")) == {"folders[0].folder": "unknown_folder"}
    assert mounted(site, ("data", "/work"), group=other)[0]["folder"] == elsewhere.uid


def test_a_name_that_two_folders_have_asks_for_the_id(site: Site) -> None:
    own = create_folder(name="data", user_id=site.user.pk, now=T0, actor=None)
    create_folder(name="data", group=site.group, now=T0, actor=None)
    assert refused(site, ("data", "/work")) == {"folders[0].folder": "ambiguous"}
    assert mounted(site, (own.uid, "/work"))[0]["folder"] == own.uid


def test_every_fault_is_named(site: Site) -> None:
    faults = refused(site, ("home", "/work"), ("home", "/work/"), ("nothing", "../x", "rx"))
    assert faults == {
        "folders[1].path": "taken",
        "folders[2].folder": "unknown_folder",
        "folders[2].path": "bad_path",
        "folders[2].mode": "unknown_choice",
    }
    assert refused(site, *[("home", f"/d{n}") for n in range(MOST_MOUNTS + 1)]) == {"folders": "too_many"}


def test_a_viewer_writes_to_no_folder_of_the_group(site: Site) -> None:
    viewer = a_user("vera")
    group = a_group("speech", vera=Role.VIEWER)
    actor = actor_of(viewer.pk)
    assert actor is not None
    with pytest.raises(InvalidInputError) as error:
        resolve_mounts(actor, group, [{"folder": "shared", "path": "/d", "mode": "rw"}], T0)
    assert error.value.errors[0].code == "read_only"
    assert resolve_mounts(actor, group, [{"folder": "shared", "path": "/d", "mode": "ro"}], T0)


@pytest.mark.parametrize(
    "path",
    [
        "/workspace",
        "/workspace/",
        "/home/jovyan",
        "//data//x",
        "/data/./x",
        "/tmp/x",
        "/root",
        "/mnt/ü",
        "/opt/x",
        "/devel",
        "/etcetera",
    ],
)
def test_usual_places_are_fine(path: str) -> None:
    found = container_path(path)
    assert found is not None
    assert found == "/" + posixpath.normpath(path).lstrip("/")


@pytest.mark.parametrize(
    "path",
    ["", "/", "//", "/.", "x", "./x", "/a/..", "/../etc", "/a/../../etc", "/etc", "/etc/passwd", "/proc", "/sys/fs",
     "/dev/shm", "/usr/lib", "/bin", "/lib64", "/run/secrets", "/var/run/docker.sock", "//etc//x", "/./etc", "/a\x00b",
     "/a\nb", "/a:b", "/" + "x" * 255, "/opt/aistation/x", "/var", "/boot"],
)  # fmt: skip
def test_places_of_the_system_are_refused(path: str) -> None:
    """B064, S5."""
    assert container_path(path) is None


@given(st.text(st.sampled_from("/.ab\\ \x00etcprocusr"), max_size=30))
def test_what_is_accepted_is_absolute_normal_and_outside_the_system(path: str) -> None:
    found = container_path(path)
    if found is not None:
        assert found.startswith("/")
        assert found == posixpath.normpath(found)
        assert container_path(found) == found
        assert ".." not in found.split("/")
        assert found.split("/")[1] not in ("etc", "proc", "usr", "sys", "dev", "run")
