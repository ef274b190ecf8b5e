"""Every error is a problem document with a stable code (B074)."""

import json
from typing import Any

import psycopg2
import pytest
from django.db import connection
from django.http import HttpRequest
from rest_framework import serializers

from aistation.api.problems import field_errors, handle_exception
from tests.factories.api import JOB, Api, World, a_world, faults


def problem_of(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(answer.content)
    assert body["status"] == status
    return body


def test_a_wrong_method_is_405_and_names_the_right_ones(alice: Api) -> None:
    answer = alice.call("DELETE", "/jobs")
    assert problem_of(answer, 405)["code"] == "method_not_allowed"
    assert "GET" in answer["Allow"]
    assert "POST" in answer["Allow"]
    for method in ("OPTIONS", "TRACE", "PUT"):
        problem_of(alice.call(method, "/jobs"), 405)


def test_an_answer_that_is_not_json_is_406(alice: Api) -> None:
    assert problem_of(alice.call("GET", "/jobs", accept="text/html"), 406)["code"] == "not_acceptable"


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/json; charset=latin-1"],
)
def test_a_body_that_is_not_json_is_415(alice: Api, kind: str) -> None:
    answer = alice.call("POST", "/jobs", json.dumps(JOB).encode(), content_type=kind)
    assert problem_of(answer, 415)["code"] == "unsupported_media_type"


def test_json_with_its_charset_is_fine(alice: Api) -> None:
    answer = alice.call("POST", "/jobs", json.dumps(JOB).encode(), content_type="application/json; charset=UTF-8")
    assert answer.status_code == 201


def test_a_body_beyond_the_limit_is_413(alice: Api) -> None:
    body = json.dumps({**JOB, "env": {"A": "x" * (4 << 20)}}).encode()
    assert problem_of(alice.call("POST", "/jobs", body), 413)["code"] == "too_large"


@pytest.mark.parametrize("body", [b"{", b'{"a": NaN}', b"\xff", b"[" * 50000])
def test_a_body_that_cannot_be_read_is_400(alice: Api, body: bytes) -> None:
    assert problem_of(alice.call("POST", "/jobs", body), 400)["code"] == "malformed_json"


@pytest.mark.parametrize("body", [[], "text", 1, None, True, [[]]])
def test_a_body_of_the_wrong_shape_is_400(alice: Api, body: object) -> None:
    problem = problem_of(alice.call("POST", "/jobs", json.dumps(body).encode()), 400)
    assert faults(problem) == {"body": "null" if body is None else "invalid_type"}


def test_every_fault_is_named_with_its_path(alice: Api) -> None:
    body = {
        **JOB,
        "priority": 101,
        "tasks": "2",
        "resources": {"gpus": 2.5, "cpu_milli": 0, "memory_mib": None, "speed": 1},
        "folders": [{"folder": "home", "path": "/a"}, {"folder": "home"}],
        "command": ["ok", 7],
        "env": {"A": 1},
        "privileged": True,
    }
    assert faults(alice.post("/jobs", body, status=400)) == {
        "priority": "out_of_range",
        "tasks": "invalid_type",
        "resources.gpus": "invalid_type",
        "resources.cpu_milli": "out_of_range",
        "resources.memory_mib": "null",
        "resources.speed": "unknown_field",
        "folders[1].path": "required",
        "command[1]": "invalid_type",
        "env.A": "invalid_type",
        "privileged": "unknown_field",
    }


@pytest.mark.parametrize(
    "option",
    [
        "privileged",
        "cap_add",
        "devices",
        "pid",
        "ipc",
        "network",
        "volumes",
        "security_opt",
        "runtime",
        "userns",
        "sysctls",
        "labels",
    ],
)
def test_dangerous_container_options_are_unknown_fields(alice: Api, option: str) -> None:
    """B070: refused, not ignored; in the job and in its resources."""
    assert faults(alice.post("/jobs", {**JOB, option: "host"}, status=400)) == {option: "unknown_field"}
    inner = {**JOB, "resources": {"gpus": 1, option: True}}
    assert faults(alice.post("/jobs", inner, status=400)) == {f"resources.{option}": "unknown_field"}
    environment = {"image": "shell", "group": "vision", option: True}
    assert faults(alice.post("/environments", environment, status=400)) == {option: "unknown_field"}
    assert alice.get("/jobs")["results"] == []


@pytest.mark.parametrize("field", ["user", "owner", "node", "epoch", "state", "attempt", "id", "queued_at", "reason"])
def test_what_only_the_platform_sets_cannot_be_sent(world: World, field: str) -> None:
    """S18, for create and change."""
    assert faults(world.alice.post("/jobs", {**JOB, field: "bob"}, status=400)) == {field: "unknown_field"}
    job = world.alice.post("/jobs", JOB)
    assert faults(world.alice.patch(f"/jobs/{job['id']}", {field: 1}, status=400)) == {field: "unknown_field"}


def test_an_unknown_parameter_is_named(alice: Api) -> None:
    assert faults(problem_of(alice.call("GET", "/jobs?limt=5"), 400)) == {"limt": "unknown_field"}
    assert faults(problem_of(alice.call("GET", "/jobs?limit=5&limit=6"), 400)) == {"limit": "duplicate_key"}


def test_nul_in_an_address_is_missing_and_in_a_parameter_a_mistake(alice: Api) -> None:
    problem_of(alice.call("GET", "/pools/a%00b"), 404)
    problem_of(alice.call("GET", "/jobs/%ff%fe"), 404)
    assert faults(problem_of(alice.call("GET", "/jobs?name=a%00"), 400)) == {"name": "nul"}


@pytest.mark.django_db(transaction=True)
def test_a_database_that_goes_away_is_503_with_a_hint_when_to_retry() -> None:
    world = a_world()
    world.alice.get("/me")
    with psycopg2.connect(**connection.get_connection_params() | {"cursor_factory": None}) as other:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
    other.close()
    answer = world.alice.client.get("/api/v1/me", headers={"authorization": f"Bearer {world.alice.token}"})
    connection.close()
    assert problem_of(answer, 503)["code"] == "unavailable"
    assert answer["Retry-After"] == "2"
    world.alice.get("/me")


def test_a_fault_of_ours_shows_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    answer = handle_exception(RuntimeError("secret detail"), {"request": HttpRequest(), "view": None})
    assert problem_of(answer, 500)["code"] == "internal"
    assert b"secret detail" not in answer.content  # type: ignore[attr-defined]
    assert "secret detail" in caplog.text


def test_nested_faults_of_lists_become_paths() -> None:
    class Inner(serializers.Serializer):  # type: ignore[type-arg]
        numbers = serializers.DictField(child=serializers.ListField(child=serializers.IntegerField()))

    class Outer(serializers.Serializer):  # type: ignore[type-arg]
        inner = Inner(many=True)

    reader = Outer(data={"inner": [{"numbers": {"a": [1]}}, {"numbers": {"b": [1, "x"]}}]})
    assert not reader.is_valid()
    assert [error.field for error in field_errors(reader.errors)] == ["inner[1].numbers.b[1]"]


def test_what_a_role_does_not_allow_is_audited(world: World) -> None:
    """B062."""
    world.alice.post("/groups", {"name": "mine"}, status=403)
    (event,) = world.root.get("/audit?actor=alice")["results"]
    assert (event["action"], event["target"], event["via"]) == ("access.refused", "POST /api/v1/groups", "token:test")
