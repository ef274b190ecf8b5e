"""Whatever is sent, nothing ends in a server error (B074)."""

import contextlib
import copy
import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import requests
import schemathesis
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.core import NotSet

from tests.architecture.route_table import API

if TYPE_CHECKING:
    from tests.factories.stage import Stage

DRY_RUN = "/api/v1/jobs/dry-run"
EXAMPLES = 3  # of each operation and mode
REFUSALS = {400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 429}
VALUES: list[Any] = [
    None, True, 0, -1, 2**31, 2**63, 10**40, 2.5, 1e308, "", "x" * 300, "\x00", "\ud800", "../../etc", "é\u202e\r\n",
    [], {}, [None], {"": ""}, {"a": {"b": 1}}, [{"a": 1}], ["x"] * 5000,
]  # fmt: skip
BODIES: list[tuple[bytes, str]] = [
    (b"", "application/json"),
    (b"\xff\xfe", "application/json"),
    (b'{"name": "\xc3\x28"}', "application/json"),
    (b'{"name": "\\u0000"}', "application/json"),
    (b'{"name": "\\ud800"}', "application/json"),
    (b'{"a\\u0000b": 1}', "application/json"),
    (b'{"name": NaN}', "application/json"),
    (b'{"name": -0, "tasks": -0}', "application/json"),
    (b'{"name": 1, "name": 2}', "application/json"),
    (b"[" * 10_000, "application/json"),
    (b'{"a":' * 40 + b"1" + b"}" * 40, "application/json"),
    (b'{"tasks": ' + b"9" * 10_000 + b"}", "application/json"),
    (b"{}" + b" " * 100_000, "application/json"),
    (b"name=x", "application/x-www-form-urlencoded"),
    (b"--x\r\n\r\n", "multipart/form-data; boundary=x"),
    (b"--x", "multipart/form-data"),
    (b"{}", "application/json; charset=utf-16"),
    (b"{}", "\xff/\x00"),
]
HEADERS: list[dict[str, str]] = [
    {"idempotency_key": "\xff"},
    {"idempotency_key": "x" * 5000},
    {"if_match": "x" * 5000},
    {"if_match": "\xff,\x00"},
    {"authorization": "Bearer " + "x" * 20_000},
    {"accept": "\xff/*;q=x"},
    {"host": "[::1"},
    {"accept_language": "x" * 5000},
    {"content_length": "99999999999999999999"},
    {"x_forwarded_for": "\x00"},
]


@pytest.fixture
def stage(db: None) -> "Stage":
    from tests.factories.stage import a_stage  # noqa: PLC0415 - the settings are not loaded yet up there

    return a_stage()


def send(stage: "Stage", method: str, path: str, body: Any = None, role: str = "platform_admin", **headers: str) -> int:
    """The status; below 500, or the caller's assertion fails. What it changed is undone."""
    try:
        with transaction.atomic():
            answer = stage.callers[role].call(method, path, body, **headers)
            if answer.streaming and not answer.is_async:
                b"".join(answer.streaming_content)
            transaction.set_rollback(True)
    except UnicodeEncodeError:  # the client itself cannot send it
        return 400
    if answer.status_code >= 400:
        problem = json.loads(answer.content)
        assert answer.status_code in REFUSALS, (method, path, body)
        assert problem["status"] == answer.status_code
        assert b"Traceback" not in answer.content
    return int(answer.status_code)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_random_requests_from_the_document_never_end_in_a_server_error(stage: "Stage") -> None:
    """Right and wrong ones of every operation, to ids that exist and to made-up ones."""
    schema = schemathesis.openapi.from_dict(stage.callers["owner"].get("/api/schema/"))
    sent: Counter[int] = Counter()
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]
        if operation.path != DRY_RUN:
            for mode in schemathesis.GenerationMode:
                sent.update(try_operation(stage, operation, mode))
    assert sent.total() >= 500, sent
    assert {200, 400, 404} <= set(sent), sent


def try_operation(stage: "Stage", operation: Any, mode: schemathesis.GenerationMode) -> list[int]:
    """The statuses of some examples, each sent to the thing that exists and to the one that was made up."""
    statuses: list[int] = []
    ids = {**stage.ours, "token_id": stage.ours["join_token_id" if "join" in operation.path else "token_id"]}
    known = {name: ids[name] for name in ids if f"{{{name}}}" in operation.path}

    @seed(20_260_105)
    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        statuses.append(send_case(stage, case))
        if known:
            case.path_parameters = known
            statuses.append(send_case(stage, case))

    with contextlib.suppress(Unsatisfiable):  # nothing about this operation can be wrong
        run()
    return statuses


def send_case(stage: "Stage", case: Any) -> int:
    arguments = case.as_transport_kwargs(base_url="http://testserver")
    body = None if isinstance(case.body, NotSet) else case.body
    headers = {name.lower().replace("-", "_"): str(value) for name, value in (case.headers or {}).items()}
    headers.pop("authorization", None)
    url = requests.Request("GET", arguments["url"], params=arguments.get("params")).prepare().url or ""
    return send(stage, case.method, url.removeprefix("http://testserver"), body, **headers)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_one_odd_value_in_an_otherwise_right_body_is_refused_or_taken(stage: "Stage") -> None:
    """Every field of every body, one after the other."""
    count = 0
    for path, rows in API.items():
        for row in rows:
            if not isinstance(row.body, dict) or path == DRY_RUN:
                continue
            for body in spoiled(row.body):
                send(stage, row.method, path.format(**stage.ours), body)
                count += 1
    assert count > 500


def spoiled(body: dict[str, Any]) -> Iterator[Any]:
    for name in [*body, "unknown"]:
        for value in VALUES:
            yield {**body, name: value}
        if isinstance(body.get(name), dict):
            for inner in spoiled(body[name]):
                yield {**copy.deepcopy(body), name: inner}


def test_bytes_that_are_no_json_are_refused_everywhere(stage: "Stage") -> None:
    for path, rows in API.items():
        for row in rows:
            if row.method in ("POST", "PUT", "PATCH") and path != DRY_RUN:
                for body, kind in BODIES:
                    status = send(stage, row.method, path.format(**stage.ours), body, content_type=kind)
                    assert status != 200 or body.strip() in (b"", b"{}"), (path, body)


def test_odd_headers_and_parameters_are_refused_or_ignored(stage: "Stage") -> None:
    queries = ["limit=1e9", "limit=%00", "cursor=%ff", "name=%ed%a0%80", "&&&=", "a" * 9000, "state=" + "queued," * 500]
    for path in ("/api/v1/jobs", "/api/v1/groups/vision", "/api/v1/audit", f"/api/v1/jobs/{stage.ours['job']}/logs"):
        for headers in HEADERS:
            send(stage, "GET", path, **headers)
        for query in queries:
            send(stage, "GET", f"{path}?{query}")
    for odd in ("%00", "%ff", "..", "%2e%2e%2f", "a" * 5000, "%ed%a0%80", "job-%00", "'", "{}", "-1"):
        for path in ("/api/v1/jobs/{}", "/api/v1/groups/{}/quotas", "/api/v1/tokens/{}", "/api/v1/nodes/{}/drain"):
            assert send(stage, "GET", path.format(odd)) in (404, 405)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.django_db(transaction=True)
def test_a_dry_run_takes_any_body_too() -> None:
    from tests.factories.stage import a_stage  # noqa: PLC0415

    stage = a_stage()
    (row,) = API[DRY_RUN]
    for body in spoiled(row.body):
        try:
            status = stage.callers["owner"].call("POST", DRY_RUN, body).status_code
        except UnicodeEncodeError:
            continue
        assert status in (200, 400, 429)
