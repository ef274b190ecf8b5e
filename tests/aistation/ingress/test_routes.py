"""What is written for Envoy, and in which order."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aistation.ingress import files
from aistation.ingress.hosts import local_path
from aistation.ingress.routes import ORDER, Files, Names, Route, with_leaving
from aistation.ingress.routes import files as rendered

NAMES = Names(portal=("portal.example", "127.0.0.1"), domain="envs.example")
A, B = Route("env-a", "10.0.0.1", 32001), Route("env-b", "node-b", 32002)


def _names(resources: Sequence[dict[str, Any]]) -> list[str]:
    return [resource["name"] for resource in resources]


def _hosts(content: Files) -> dict[str, list[str]]:
    return {host["name"]: host["domains"] for host in content["rds.json"][0]["virtual_hosts"]}


def test_each_environment_has_its_host_name_and_every_other_name_is_the_portals() -> None:
    assert _hosts(rendered([B, A], NAMES)) == {
        "env-a": ["env-a.envs.example"],
        "env-b": ["env-b.envs.example"],
        "closed": ["*.envs.example"],
        "portal": ["*", "127.0.0.1", "portal.example"],
    }


def test_what_a_host_name_leads_to_exists() -> None:
    content = rendered([A, B], NAMES)
    assert _names(content["cds.json"]) == ["env-a", "env-a.node", "env-b", "env-b.node"]
    assert _names(content["lds.json"]) == ["env-a.0", "env-b.0"]


def test_raising_the_generation_changes_the_gate_and_not_the_host_names() -> None:
    before, after = rendered([A, B], NAMES), rendered([Route("env-a", "10.0.0.1", 32001, 1), B], NAMES)
    assert _names(after["lds.json"]) == ["env-a.1", "env-b.0"]
    assert after["rds.json"] == before["rds.json"]
    assert after["cds.json"][2:] == before["cds.json"][2:]


def test_the_order_of_the_rows_makes_no_difference() -> None:
    assert rendered([A, B], NAMES) == rendered([B, A], NAMES)


_routes = st.sets(st.sampled_from([Route(f"env-{x}", "10.0.0.1", 1, g) for x in "abc" for g in (0, 1)])).map(
    lambda found: list({route.uid: route for route in found}.values())
)


@given(st.lists(_routes, max_size=6))
def test_at_no_moment_does_a_host_name_lead_to_a_cluster_that_is_not_there(steps: list[list[Route]]) -> None:
    present = rendered([], NAMES)
    for wanted in steps:
        written = with_leaving(rendered(wanted, NAMES), present)
        for name in ORDER:
            present = {**present, name: written[name]}
            clusters = set(_names(present["cds.json"]))
            assert {uid for uid in _hosts(present) if uid.startswith("env-")} <= clusters
    settled = with_leaving(rendered(steps[-1], NAMES), present) if steps else present
    assert settled == rendered(steps[-1] if steps else [], NAMES)


class TestFiles:
    def test_the_first_files_lead_to_the_portal_and_what_is_there_stays(self, tmp_path: Path) -> None:
        files.prepare(tmp_path, NAMES)
        assert files.replace(tmp_path, rendered([A], NAMES), 7)
        files.prepare(tmp_path, NAMES)
        assert _names(_read(tmp_path, "lds.json")) == ["env-a.0"]

    def test_the_same_again_writes_nothing(self, tmp_path: Path) -> None:
        assert files.replace(tmp_path, rendered([A], NAMES), 1)
        stamps = {name: (tmp_path / name).stat().st_ino for name in ORDER}
        assert not files.replace(tmp_path, rendered([A], NAMES), 2)
        assert {name: (tmp_path / name).stat().st_ino for name in ORDER} == stamps

    def test_an_older_reading_never_overwrites_a_newer_one(self, tmp_path: Path) -> None:
        files.replace(tmp_path, rendered([A, B], NAMES), 9)
        assert not files.replace(tmp_path, rendered([A], NAMES), 8)
        assert _names(_read(tmp_path, "lds.json")) == ["env-a.0", "env-b.0"]

    def test_a_torn_file_is_written_anew(self, tmp_path: Path) -> None:
        files.replace(tmp_path, rendered([A], NAMES), 1)
        (tmp_path / "cds.json").write_text('{"version_info": "1", "resour')
        assert files.replace(tmp_path, rendered([A], NAMES), 2)
        assert _names(_read(tmp_path, "cds.json")) == ["env-a", "env-a.node"]

    def test_what_left_stays_reachable_for_one_write_longer(self, tmp_path: Path) -> None:
        files.replace(tmp_path, rendered([A, B], NAMES), 1)
        files.replace(tmp_path, rendered([B], NAMES), 2)
        assert _names(_read(tmp_path, "cds.json")) == ["env-b", "env-b.node", "env-a", "env-a.node"]
        assert files.replace(tmp_path, rendered([B], NAMES), 3)
        assert _names(_read(tmp_path, "cds.json")) == ["env-b", "env-b.node"]


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
    resources: list[dict[str, Any]] = json.loads((directory / name).read_text())["resources"]
    return resources
