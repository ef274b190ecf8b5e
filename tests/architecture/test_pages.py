"""Every page x method x role (S16, S17, B062), like `test_routes` for the API."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLResolver, get_resolver

from tests.architecture.page_table import PAGES
from tests.architecture.route_table import COLUMNS

if TYPE_CHECKING:
    from tests.factories.stage import Stage

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PEOPLE = (None, "bob", "vera", "mike", "alice", "gina", "root")  # in the order of the columns
NOUNS = {
    "groups": "group", "quotas": "group", "nodes": "node", "pools": "pool", "images": "image", "profiles": "profile",
    "users": "username", "jobs": "job", "environments": "environment", "lending": "rule", "reserves": "reserve",
}  # fmt: skip
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
CASES = [(path, method) for path, methods in PAGES.items() for method in methods]


def portal_routes(resolver: URLResolver | None = None, before: str = "/") -> Iterator[str]:
    for pattern in (resolver or get_resolver()).url_patterns:
        path = before + str(pattern.pattern).removeprefix("^")
        if isinstance(pattern, URLResolver):
            yield from portal_routes(pattern, path)
        elif pattern.callback.__module__.startswith("aistation.portal.") or path.endswith("/open"):
            yield PARAMETER.sub(r"{\1}", path)


def as_listed(path: str) -> str:
    noun = NOUNS.get(path.split("/")[1], "")
    listed = path.replace("{name}", f"{{{noun}}}")
    return listed.replace("{token_id}", "{join_token_id}") if path.startswith("/nodes/") else listed


def test_every_page_is_listed_and_every_listed_one_exists() -> None:
    assert {as_listed(path) for path in portal_routes()} == set(PAGES)


@pytest.fixture
def stage(db: None) -> "Stage":
    from tests.factories.stage import a_stage  # noqa: PLC0415 - the settings are not loaded yet up there

    return a_stage()


@pytest.fixture
def browsers(stage: "Stage") -> dict[str, Client]:
    from aistation.tenancy.models import User  # noqa: PLC0415

    browsers = {}
    for role, username in zip(COLUMNS, PEOPLE, strict=True):
        browsers[role] = Client()
        if username:
            browsers[role].force_login(User.objects.get(username=username))
    return browsers


def visit(browser: Client, method: str, path: str, ids: dict[str, str]) -> Any:
    """The answer; what it changed is undone."""
    noun = NOUNS.get(path.split("/")[1], "")
    where = path.format(**ids, uid=ids.get(noun, ""))
    visitor = Client()
    visitor.cookies.update(browser.cookies)
    with transaction.atomic():
        answer = visitor.generic(method, where, b"", content_type="application/x-www-form-urlencoded")
        transaction.set_rollback(True)
    return answer


def letter(answer: Any) -> str:
    if answer.status_code == 302 and answer["Location"].startswith("/login"):
        return "L"
    return {403: "F", 404: "N"}.get(answer.status_code, "Y" if answer.status_code < 500 else str(answer.status_code))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_role_gets_what_the_table_says(stage: "Stage", browsers: dict[str, Client]) -> None:
    """S16."""
    for path, method in CASES:
        got = "".join(letter(visit(browsers[role], method, path, stage.ours)) for role in COLUMNS)
        assert got == PAGES[path][method], (method, path)


@pytest.mark.slow
def test_what_one_may_not_see_looks_exactly_like_what_is_not_there(stage: "Stage", browsers: dict[str, Client]) -> None:
    """S17, B062: the same page, byte for byte but for the form's own token."""
    compared = 0
    for path, method in CASES:
        for role, wanted in zip(COLUMNS, PAGES[path][method], strict=True):
            if wanted == "N":
                ours, absent = (visit(browsers[role], method, path, ids) for ids in (stage.ours, stage.absent))
                assert (ours.status_code, plain(ours)) == (absent.status_code, plain(absent)), (role, method, path)
                compared += 1
    assert compared >= 15


def plain(answer: Any) -> str:
    text = answer.content.decode()
    text = re.sub(r'csrfmiddlewaretoken" value="[^"]*"', "", text)
    text = re.sub(r"X-CSRFToken[^}]*}", "", text)
    return re.sub(r'name="next" value="[^"]*"', "", text)


def test_other_methods_are_refused(stage: "Stage", browsers: dict[str, Client]) -> None:
    """405, or the way to the sign-in page: never a change."""
    for path, methods in PAGES.items():
        for method in set(METHODS) - set(methods):
            answer = visit(browsers["platform_admin"], method, path, stage.ours)
            assert answer.status_code == 405, (method, path)


def test_a_form_without_its_token_changes_nothing(stage: "Stage", browsers: dict[str, Client]) -> None:
    """S24."""
    strict = Client(enforce_csrf_checks=True)
    strict.cookies.update(browsers["platform_admin"].cookies)
    for path, methods in PAGES.items():
        if "POST" in methods:
            noun = NOUNS.get(path.split("/")[1], "")
            answer = strict.post(path.format(**stage.ours, uid=stage.ours.get(noun, "")))
            assert answer.status_code == 403, path
