"""Every route x method x role (S16, S17, B062): who may do what, and that what one may not see looks missing."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from django.urls import URLPattern, URLResolver, get_resolver

from tests.architecture.route_table import API, COLUMNS, OTHER_EDGES, OUTSIDE_THE_ROLES, Row

if TYPE_CHECKING:
    from tests.factories.stage import Stage

PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
DRY_RUN = "/api/v1/jobs/dry-run"
CASES = [(path, one) for path, rows in API.items() for one in rows if path != DRY_RUN]


def all_routes(resolver: URLResolver | None = None, before: str = "/") -> Iterator[tuple[str, Any]]:
    """Every address with its view."""
    for pattern in (resolver or get_resolver()).url_patterns:
        path = before + str(pattern.pattern).removeprefix("^")
        if isinstance(pattern, URLResolver):
            yield from all_routes(pattern, path)
        elif isinstance(pattern, URLPattern):
            yield path, pattern.callback


def as_listed(path: str) -> str:
    path = "/api/{anything}" if path.startswith("/api/.*") else path
    if path.startswith("/api/v1/join-tokens/"):
        path = path.replace("token_id", "join_token_id")
    return PARAMETER.sub(r"{\1}", path)


def is_api(path: str) -> bool:
    return path.startswith("/api/") or path == "/metrics"


class TestTheTableIsComplete:
    def test_every_address_of_the_api_is_listed_and_every_listed_one_exists(self) -> None:
        routes = {as_listed(path) for path, view in all_routes() if is_api(path)}
        listed = set(API) | {path for path in OUTSIDE_THE_ROLES if path.startswith("/api/")}
        assert routes - listed == set()
        assert listed - routes == set()

    def test_every_method_of_a_view_is_listed(self) -> None:
        for path, view in all_routes():
            where = as_listed(path)
            if where not in API:
                continue
            methods = {method.upper() for method in view.cls.http_method_names if hasattr(view.cls, method)}
            methods -= {"OPTIONS", "HEAD"}
            assert methods == {one.method for one in API[where]}, where

    def test_every_other_address_belongs_to_a_known_edge(self) -> None:
        for path, view in all_routes():
            if is_api(path) or as_listed(path) in OUTSIDE_THE_ROLES:
                continue
            assert ".".join(view.__module__.split(".")[:2]) in OTHER_EDGES, path


@pytest.fixture
def stage(db: None) -> "Stage":
    from tests.factories.stage import a_stage  # noqa: PLC0415 - the settings are not loaded yet up there

    return a_stage()


def ask(stage: "Stage", role: str, one: Row, path: str, ids: dict[str, str]) -> tuple[int, str]:
    """Status and body; whatever it changed is undone."""
    with transaction.atomic():
        answer = stage.callers[role].call(one.method, path.format(**ids), one.body)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        transaction.set_rollback(True)
    return answer.status_code, body.decode()


def test_each_role_gets_what_the_table_says(stage: "Stage") -> None:
    """S16: 7 roles x every method of every route."""
    wrong = [
        (role, one.method, path, got, wanted)
        for path, one in CASES
        for role, wanted in zip(COLUMNS, one.statuses, strict=True)
        if (got := ask(stage, role, one, path, stage.ours)[0]) != wanted
    ]
    assert wrong == []


@pytest.mark.django_db(transaction=True)
def test_a_dry_run_too_gives_each_role_what_the_table_says() -> None:
    """It reads in a transaction of its own kind, so it cannot be tried within another."""
    from tests.factories.stage import a_stage  # noqa: PLC0415

    stage = a_stage()
    (one,) = API[DRY_RUN]
    got = [stage.callers[role].call("POST", DRY_RUN, one.body).status_code for role in COLUMNS]
    assert tuple(got) == one.statuses


def test_what_one_may_not_see_looks_exactly_like_what_is_not_there(stage: "Stage") -> None:
    """S17, B062: same status, same body, for every id in every address and every method."""
    compared = 0
    for path, one in CASES:
        if "{" not in path:
            continue
        for role, wanted in zip(COLUMNS, one.statuses, strict=True):
            if wanted == 404:
                foreign = ask(stage, role, one, path, stage.ours)
                missing = ask(stage, role, one, path, stage.absent)
                assert foreign == missing, (role, one.method, path)
                compared += 1
    assert compared > 25


def test_what_is_not_there_is_404_for_everybody_who_might_see_it(stage: "Stage") -> None:
    for path, one in CASES:
        if "{" in path:
            status, body = ask(stage, "platform_admin", one, path, stage.absent)
            assert (status, json.loads(body)["code"]) == (404, "not_found"), (one.method, path)


def test_an_address_that_is_none_answers_like_a_missing_thing(stage: "Stage") -> None:
    one = Row("GET", ())
    missing = ask(stage, "owner", one, "/api/v1/jobs/job-zzzzzzzzzzzz", {})
    for path in ("/api/v1/nothing", "/api/v1/jobs/1", "/api/v1/jobs/a..b", "/api/v2/jobs", "/api/", "/api/v1/jobs/"):
        assert ask(stage, "owner", one, path, {}) == missing
        assert ask(stage, "stranger", one, path, {})[0] == 401


def test_names_in_a_body_do_not_tell_what_exists(stage: "Stage") -> None:
    """B062: the sibling way to the same thing."""
    job = {"name": "x", "image": "shell", "group": "vision"}
    for field, ours, absent in [("group", "vision", "nobody"), ("image", "own", "none")]:
        answers = []
        for name in (ours, absent):
            body = {**job, "group": "speech", field: name}
            status, text = ask(stage, "other", Row("POST", (), body), "/api/v1/jobs", {})
            answers.append((status, re.sub(rf"\b{name}\b", "NAME", text)))
        assert answers[0] == answers[1]
        assert answers[0][0] == 400


def test_lists_hold_nothing_of_another_group(stage: "Stage") -> None:
    """S17, I9: no id, name or count of one tenant in any answer to another."""
    told = ""
    for path, rows in API.items():
        if "{" not in path and any(one.method == "GET" for one in rows) and "/me" not in path:
            told += ask(stage, "other", Row("GET", ()), path, {})[1]
    for secret in (stage.ours["job"], stage.ours["environment"], stage.ours["folder"], "vision", "alice", '"own"'):
        assert secret not in told, secret


def test_unlisted_methods_are_refused(stage: "Stage") -> None:
    for path, rows in API.items():
        known = {one.method for one in rows}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - known:
            status, _ = ask(stage, "platform_admin", Row(method, ()), path, stage.ours)
            assert status == 405, (method, path)


@pytest.mark.parametrize("path", ["enrol", "heartbeat", "report", "logs", "desired"])
def test_a_persons_token_opens_nothing_of_the_agents(stage: "Stage", path: str) -> None:
    for caller in stage.callers.values():
        for method in ("GET", "POST"):
            answer = caller.client.generic(
                method,
                f"/agent/v1/{path}",
                b"{}",
                content_type="application/json",
                headers={"authorization": f"Bearer {caller.token}"},
            )
            assert answer.status_code in (400, 401, 405), (method, path, answer.status_code)
