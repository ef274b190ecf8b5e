"""The live socket, over the real channel layer."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from channels.auth import AuthMiddlewareStack
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import Client

from aistation.core.clock import now
from aistation.portal import consumers
from aistation.portal.live import allowed_topics
from aistation.portal.routing import websocket_urlpatterns
from aistation.tenancy import services
from aistation.tenancy.models import User
from aistation.tenancy.policy import Role
from aistation.tenancy.selectors import actor_of
from tests.factories.work import submitted
from tests.factories.world import Site, a_group

pytestmark = pytest.mark.django_db(transaction=True)
application = AuthMiddlewareStack(URLRouter(websocket_urlpatterns))


@pytest.fixture
def cookie_of(db: None) -> Callable[[User], str]:
    def make(user: User) -> str:
        client = Client()
        client.force_login(user)
        return str(client.cookies[settings.SESSION_COOKIE_NAME].value)

    return make


@asynccontextmanager
async def open_socket(cookie: str) -> AsyncIterator[Any]:
    header = (b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode())
    socket = WebsocketCommunicator(application, "/ws/live/", headers=[header])
    assert (await socket.connect())[0]
    try:
        yield socket
    finally:
        await socket.disconnect()


async def subscribe(socket: Any, *topics: str) -> list[str]:
    await socket.send_json_to({"subscribe": list(topics)})
    allowed: list[str] = (await socket.receive_json_from())["subscribed"]
    return allowed


async def change(topic: str) -> None:
    await get_channel_layer().group_send(topic, {"type": "changed", "topic": topic})


async def test_a_change_reaches_the_page_that_listens(site: Site, cookie_of: Callable[[User], str]) -> None:
    cookie = await database_sync_to_async(cookie_of)(site.user)
    async with open_socket(cookie) as socket:
        assert await subscribe(socket, "queue", f"user.{site.user.pk}") == ["queue", f"user.{site.user.pk}"]
        await change("queue")
        assert await socket.receive_json_from() == {"topic": "queue"}
        await change("cluster")
        assert await socket.receive_nothing()


async def test_a_submit_is_told_to_the_page_of_its_owner(site: Site, cookie_of: Callable[[User], str]) -> None:
    cookie = await database_sync_to_async(cookie_of)(site.user)
    async with open_socket(cookie) as socket:
        topic = f"user.{site.user.pk}"
        await subscribe(socket, topic)
        await database_sync_to_async(submitted)(site)
        assert await socket.receive_json_from() == {"topic": topic}


async def test_a_burst_is_told_at_once_and_once_at_its_end(site: Site, cookie_of: Callable[[User], str]) -> None:
    cookie = await database_sync_to_async(cookie_of)(site.user)
    async with open_socket(cookie) as socket:
        await subscribe(socket, "queue")
        for _ in range(50):
            await change("queue")
        assert await socket.receive_json_from() == {"topic": "queue"}
        assert await socket.receive_json_from(timeout=2) == {"topic": "queue"}
        assert await socket.receive_nothing(timeout=1)


async def test_log_growth_names_its_task(site: Site, cookie_of: Callable[[User], str]) -> None:
    cookie = await database_sync_to_async(cookie_of)(site.user)
    job = await database_sync_to_async(submitted)(site)
    async with open_socket(cookie) as socket:
        await subscribe(socket, f"log.{job.uid}")
        message = {"type": "log", "task": f"{job.uid}-1-0", "stored": 42}
        await get_channel_layer().group_send(f"log.{job.uid}", message)
        told = {"topic": f"log.{job.uid}", "task": f"{job.uid}-1-0", "stored": 42}
        assert await socket.receive_json_from() == told


async def test_a_stranger_is_sent_away() -> None:
    socket = WebsocketCommunicator(application, "/ws/live/")
    await socket.connect()
    assert await socket.receive_output() == {"type": "websocket.close", "code": consumers.REVOKED}


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"subscribe": 3}', '{"subscribe": "' + 9000 * "x" + '"}'])
async def test_what_is_no_subscription_closes_the_socket(
    site: Site, cookie_of: Callable[[User], str], text: str
) -> None:
    cookie = await database_sync_to_async(cookie_of)(site.user)
    async with open_socket(cookie) as socket:
        await socket.send_to(text_data=text)
        assert (await socket.receive_output())["code"] == consumers.BAD_MESSAGE


async def test_a_new_password_closes_the_socket(
    site: Site, cookie_of: Callable[[User], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "CHECK_S", 0.05)
    cookie = await database_sync_to_async(cookie_of)(site.user)

    def change_password() -> None:
        admin = services.create_user(username="root", password=None, now=now(), actor=None, is_platform_admin=True)
        actor = actor_of(admin.pk)
        assert actor is not None
        services.change_user(user_id=site.user.pk, password="another horse battery", now=now(), actor=actor)

    async with open_socket(cookie) as socket:
        await subscribe(socket, "queue")
        await database_sync_to_async(change_password)()
        closing = await socket.receive_output(timeout=5)
        assert closing == {"type": "websocket.close", "code": consumers.REVOKED}


async def test_who_leaves_a_group_hears_no_more_of_it(
    site: Site, cookie_of: Callable[[User], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "CHECK_S", 0.05)
    cookie = await database_sync_to_async(cookie_of)(site.user)

    def leave() -> None:
        services.remove_member(group=site.group, user=site.user, now=now(), actor=site.actor)

    async with open_socket(cookie) as socket:
        await subscribe(socket, f"group.{site.group.pk}")
        await database_sync_to_async(leave)()
        assert (await socket.receive_output(timeout=5))["code"] == consumers.REVOKED


def test_topics_of_others_are_as_if_they_did_not_exist(site: Site) -> None:
    """B062"""
    mine = submitted(site)
    theirs_group = a_group("audio", mallory=Role.GROUP_ADMIN)
    mallory = User.objects.get(username="mallory")
    actor = actor_of(mallory.pk)
    assert actor is not None
    asked = [
        f"workload.{mine.uid}",
        "workload.job-aaaaaaaaaaaa",
        f"log.{mine.uid}",
        f"user.{site.user.pk}",
        f"user.{mallory.pk}",
        f"group.{site.group.pk}",
        f"group.{theirs_group.pk}",
        "queue",
        "cluster",
        "node.1",
        "queue\n",
        "",
    ]
    assert allowed_topics(actor, asked) == [f"user.{mallory.pk}", f"group.{theirs_group.pk}", "queue", "cluster"]


def test_a_viewer_hears_of_the_job_but_not_of_its_log(site: Site) -> None:
    job = submitted(site)
    vic = services.create_user(username="vic", password=None, now=now(), actor=None)
    services.set_member(group=site.group, username="vic", role=Role.VIEWER, now=now(), actor=None)
    actor = actor_of(vic.pk)
    assert actor is not None
    assert allowed_topics(actor, [f"workload.{job.uid}", f"log.{job.uid}"]) == [f"workload.{job.uid}"]
