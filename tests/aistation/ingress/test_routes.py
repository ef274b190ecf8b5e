"""What is written for Envoy, and in which order."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aistation.ingress import files
from aistation.ingress.envoy import path_of
from aistation.ingress.hosts import local_path
from aistation.ingress.routes import ORDER, Names, Route
from aistation.ingress.routes import files as rendered

NAMES = Names(portal=("portal.example", "127.0.0.1"), domain="envs.example")
A, B = Route("env-a", "10.0.0.1", 32001), Route("env-b", "node-b", 32002)


def _names(resources: Sequence[dict[str, Any]]) -> list[str]:
    return [resource["name"] for resource in resources]


def test_below_the_environments_domain_the_portal_decides_and_every_other_name_is_the_portals() -> None:
    hosts = rendered([A], NAMES)["rds.json"][0]["virtual_hosts"]
    assert {host["name"]: host["domains"] for host in hosts} == {
        "environments": ["*.envs.example"],
        "portal": ["*", "127.0.0.1", "portal.example"],
    }


def test_each_environment_has_its_cluster_its_gate_and_its_container() -> None:
    content = rendered([B, A], NAMES)
    assert _names(content["cds.json"]) == ["env-a", "env-a.node", "env-b", "env-b.node"]
    assert _names(content["lds.json"]) == ["env-a.0", "env-b.0"]


def test_raising_the_generation_changes_that_environments_gate_and_nothing_of_another() -> None:
    before, after = rendered([A, B], NAMES), rendered([Route("env-a", "10.0.0.1", 32001, 1), B], NAMES)
    assert _names(after["lds.json"]) == ["env-a.1", "env-b.0"]
    assert (after["rds.json"], after["cds.json"][1:]) == (before["rds.json"], before["cds.json"][1:])


def test_the_order_of_the_rows_makes_no_difference() -> None:
    assert rendered([A, B], NAMES) == rendered([B, A], NAMES)


class TestFiles:
    def test_the_first_files_lead_to_the_portal_and_what_is_there_stays(self, tmp_path: Path) -> None:
        files.prepare(tmp_path, NAMES)
        assert files.replace(tmp_path, rendered([A], NAMES), 7)
        files.prepare(tmp_path, NAMES)
        assert _names(_read(tmp_path, "lds.json")) == ["env-a.0"]

    def test_the_same_again_writes_nothing(self, tmp_path: Path) -> None:
        assert files.replace(tmp_path, rendered([A], NAMES), 1)
        stamps = {name: path_of(tmp_path, name).stat().st_ino for name in ORDER}
        assert not files.replace(tmp_path, rendered([A], NAMES), 2)
        assert {name: path_of(tmp_path, name).stat().st_ino for name in ORDER} == stamps

    def test_an_older_reading_never_overwrites_a_newer_one(self, tmp_path: Path) -> None:
        files.replace(tmp_path, rendered([A, B], NAMES), 9)
        assert not files.replace(tmp_path, rendered([A], NAMES), 8)
        assert _names(_read(tmp_path, "lds.json")) == ["env-a.0", "env-b.0"]

    def test_a_torn_file_is_written_anew(self, tmp_path: Path) -> None:
        files.replace(tmp_path, rendered([A], NAMES), 1)
        path_of(tmp_path, "cds.json").write_text('{"version_info": "1", "resour')
        assert files.replace(tmp_path, rendered([A], NAMES), 2)
        assert _names(_read(tmp_path, "cds.json")) == ["env-a", "env-a.node"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("/lab?x=1", "/lab?x=1"),
        ("/", "/"),
        (None, "/"),
        ("", "/"),
        ("lab", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
        ("/\t/evil.example", "/"),
        ("https://evil.example", "/"),
        ("/" + "a" * 2000, "/"),
    ],
)
def test_only_a_path_of_the_same_host_is_followed(wanted: str | None, expected: str) -> None:  # S27
    assert local_path(wanted) == expected


def _read(directory: Path, name: str) -> list[dict[str, Any]]:
    resources: list[dict[str, Any]] = json.loads(path_of(directory, name).read_text())["resources"]
    return resources
