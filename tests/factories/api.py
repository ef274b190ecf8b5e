"""Callers of the REST API."""

import json
from dataclasses import dataclass
from typing import Any

from django.test import Client

from aistation.core.clock import now
from aistation.tenancy.models import User
from aistation.tenancy.policy import Role, Scope
from aistation.tenancy.services import create_token, set_member
from tests.factories.world import T0, Site, a_group, a_node, a_site, a_user

JOB = {"name": "train", "group": "vision", "image": "shell", "command": ["sleep", "1"], "resources": {"gpus": 1}}


class Api:
    """A client that sends JSON with a person's token (None: a stranger) to paths below ``/api/v1``."""

    def __init__(self, token: str | None) -> None:
        self.token = token
        self.client = Client()

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """``body`` bytes go out as they are, everything else as JSON. An answer of 500 or more fails the test."""
        if self.token:
            headers.setdefault("authorization", f"Bearer {self.token}")
        where = path if path.startswith(("/api/", "/metrics")) or "://" in path else f"/api/v1{path}"
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        kind = headers.pop("content_type", "application/json" if data else "")
        response = self.client.generic(method, where, data, content_type=kind, headers=headers)
        assert response.status_code < 500, (method, path, response.content)
        return response

    def get(self, path: str, **headers: str) -> Any:
        """The JSON of a successful answer."""
        response = self.call("GET", path, **headers)
        assert response.status_code == 200, response.content
        return json.loads(response.content)

    def post(self, path: str, body: Any = None, *, status: int = 201, **headers: str) -> Any:
        return self._answer(self.call("POST", path, body, **headers), status)

    def put(self, path: str, body: Any = None, *, status: int = 200, **headers: str) -> Any:
        return self._answer(self.call("PUT", path, body, **headers), status)

    def patch(self, path: str, body: Any = None, *, status: int = 200, **headers: str) -> Any:
        return self._answer(self.call("PATCH", path, body, **headers), status)

    def delete(self, path: str, *, status: int = 204) -> Any:
        return self._answer(self.call("DELETE", path), status)

    def _answer(self, response: Any, status: int) -> Any:
        assert response.status_code == status, (response.status_code, response.content)
        return json.loads(response.content) if response.content else None


def api_of(user: User, *scopes: Scope) -> Api:
    made = create_token(
        user_id=user.pk,
        name="test",
        now=now(),
        expires_in_s=3600,
        longest_s=3600,
        actor=None,
        scopes=scopes or None,
    )
    return Api(made.secret)


def faults(problem: Any) -> dict[str, str]:
    """Field to code of a problem's errors."""
    return {error["field"]: error["code"] for error in problem["errors"]}


@dataclass(frozen=True)
class World:
    """A site with one node of eight cards. ``alice`` is a member of its group vision, ``bob`` of another group,
    ``root`` a platform admin."""

    site: Site
    alice: Api
    bob: Api
    viewer: Api
    group_admin: Api
    root: Api


def a_world() -> World:
    site = a_site()
    a_node("n1", site.pool)
    a_group("speech", bob=Role.MEMBER)
    for name, role in (("vera", Role.VIEWER), ("gina", Role.GROUP_ADMIN)):
        a_user(name)
        set_member(group=site.group, username=name, role=role, now=T0, actor=None)
    a_user("root", admin=True)
    people = {user.username: api_of(user) for user in User.objects.all()}
    return World(site, people["alice"], people["bob"], people["vera"], people["gina"], people["root"])
