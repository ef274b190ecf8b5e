"""Logs, byte for byte, whole and while they grow (B064, S20, S26)."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
import requests

from aistation.core.clock import now
from aistation.tenancy.models import ApiToken, Membership
from aistation.workloads.logs import Chunk, store_chunks
from aistation.workloads.models import Task, Workload
from aistation.workloads.reports import TaskFacts, record_task_report
from tests.factories.api import Api, World, a_world, faults
from tests.factories.work import placed, submitted, tasks_of

if TYPE_CHECKING:
    from tests.conftest import AsgiServer

AWKWARD = (
    b"\xff\xfe\x00 10%\r 20%\r\n" + "ü🦖".encode() + b"<script>alert(1)</script>\x1b[2J\n" + b"x" * (1 << 20) + b"\n"
)


def wrote(task: Task, data: bytes, stream: str = "stdout") -> None:
    offset = Task.objects.values_list("log_stored", flat=True).get(pk=task.pk)
    chunk = Chunk(task.uid, task.nonce, stream, offset, data)
    store_chunks(node_id=task.node_id, chunks=[chunk], now=now())


def ended(task: Task) -> None:
    length = Task.objects.values_list("log_stored", flat=True).get(pk=task.pk)
    facts = TaskFacts(task.uid, task.nonce, "exited", exit_code=0, log_bytes=length)
    record_task_report(node_id=task.node_id, report=facts, now=now())


def log(api: Api, job: Workload, query: str = "") -> tuple[bytes, Any]:
    answer = api.call("GET", f"/jobs/{job.uid}/logs{query}")
    assert answer.status_code == 200, answer
    return b"".join(answer.streaming_content), answer


class TestWhole:
    def test_bytes_come_back_as_they_went_in_and_inert(self, world: World) -> None:
        job = placed(world.site, 0)
        (task,) = tasks_of(job)
        wrote(task, AWKWARD)
        data, answer = log(world.alice, job)
        assert data == AWKWARD
        assert answer["Content-Length"] == str(len(AWKWARD))
        assert answer["Content-Type"] == "application/octet-stream"
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Content-Disposition"].startswith("attachment")
        assert answer["X-Log-Complete"] == "false"
        ended(task)
        assert log(world.alice, job)[1]["X-Log-Complete"] == "true"

    @pytest.mark.parametrize("offset", [0, 1, 7, 8, 9, 12, 13, 10**15])
    def test_an_offset_skips_that_many_bytes_of_both_streams(self, world: World, offset: int) -> None:
        job = placed(world.site, 0)
        (task,) = tasks_of(job)
        for data, stream in [(b"out-one\n", "stdout"), (b"err\n", "stderr"), (b"two\n", "stdout")]:
            wrote(task, data, stream)
        both, answer = log(world.alice, job, f"?offset={offset}")
        assert both == b"out-one\nerr\ntwo\n"[offset:]
        assert answer["X-Log-Next-Offset"] == str(max(16, offset))
        out = log(world.alice, job, f"?offset={offset}&stream=stdout")[0]
        err = log(world.alice, job, f"?offset={offset}&stream=stderr")[0]
        assert len(out) + len(err) == len(both)
        assert err == (b"err\n" if offset <= 8 else b"err\n"[offset - 8 :])

    def test_each_task_and_attempt_has_its_own(self, world: World) -> None:
        job = placed(world.site, 0, 1)
        first, second = tasks_of(job)
        wrote(first, b"zero")
        wrote(second, b"one")
        assert log(world.alice, job)[0] == b"zero"
        assert log(world.alice, job, "?task=1&attempt=1")[0] == b"one"
        for query in ("?task=2", "?attempt=2", "?task=32767"):
            assert world.alice.call("GET", f"/jobs/{job.uid}/logs{query}").status_code == 404

    def test_a_job_that_has_not_started_has_an_empty_log(self, world: World) -> None:
        data, answer = log(world.alice, submitted(world.site))
        assert (data, answer["Content-Length"], answer["X-Log-Complete"]) == (b"", "0", "false")

    @pytest.mark.parametrize(
        "query",
        ["offset=-1", "offset=x", "offset=1.0", "offset=../../etc/passwd", "offset=" + "9" * 40, "stream=both",
         "task=-1", "attempt=0", "follow=maybe", "path=/etc/passwd"],
    )  # fmt: skip
    def test_odd_parameters_are_mistakes(self, world: World, query: str) -> None:
        """B064: nothing that a caller sends is a path."""
        job = placed(world.site, 0)
        problem = world.alice.call("GET", f"/jobs/{job.uid}/logs?{query}").json()
        assert query.partition("=")[0] in faults(problem)

    def test_any_accept_header_gets_the_bytes(self, world: World) -> None:
        job = placed(world.site, 0)
        answer = world.alice.call("GET", f"/jobs/{job.uid}/logs", accept="text/plain")
        assert answer.status_code == 200


@contextmanager
def following(server: "AsgiServer", api: Api, path: str) -> Iterator[tuple["Reader", requests.Response]]:
    headers = {"Authorization": f"Bearer {api.token}"}
    with requests.get(f"{server.url}/api/v1{path}", headers=headers, stream=True, timeout=30) as answer:
        yield Reader(answer), answer


class Reader:
    """Collects what comes, in the background."""

    def __init__(self, answer: requests.Response) -> None:
        self.data = b""
        self.arrived = threading.Condition()
        self.is_over = False
        self._thread = threading.Thread(target=self._read, args=(answer,), daemon=True)
        self._thread.start()

    def _read(self, answer: requests.Response) -> None:
        with suppress(OSError, AttributeError, ValueError, requests.RequestException):  # closed while we read
            for piece in answer.iter_content(None):
                with self.arrived:
                    self.data += piece
                    self.arrived.notify_all()
        with self.arrived:
            self.is_over = True
            self.arrived.notify_all()

    def wait(self, count: int, timeout_s: float = 10) -> bytes:
        """At least ``count`` bytes in all."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.data) >= count, timeout_s), self.data
            return self.data

    def wait_for_end(self, timeout_s: float = 15) -> bytes:
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.is_over, timeout_s), self.data
            return self.data


class TestFollowing:
    def test_bytes_arrive_as_they_are_stored_and_the_answer_ends_with_the_task(self, asgi_server: "AsgiServer") -> None:
        world = a_world()
        job = placed(world.site, 0)
        (task,) = tasks_of(job)
        wrote(task, b"before ")
        with following(asgi_server, world.alice, f"/jobs/{job.uid}/logs?follow=true") as (reader, answer):
            assert answer.status_code == 200
            assert "Content-Length" not in answer.headers
            assert reader.wait(7) == b"before "
            blob = os.urandom(3 << 20)
            started = time.monotonic()
            for place in range(0, len(blob), 1 << 18):
                wrote(task, blob[place : place + (1 << 18)])
            reader.wait(7 + len(blob))
            assert time.monotonic() - started < 10
            wrote(task, b"err", "stderr")
            ended(task)
            assert reader.wait_for_end() == b"before " + blob + b"err"

    def test_a_follower_may_come_before_the_first_attempt_and_go_on_from_an_offset(
        self, asgi_server: "AsgiServer"
    ) -> None:
        world = a_world()
        job = submitted(world.site)
        with following(asgi_server, world.alice, f"/jobs/{job.uid}/logs?follow=1&offset=2") as (reader, _):
            world.alice.post(f"/jobs/{job.uid}/cancel", status=200)
            assert reader.wait_for_end() == b""

    def test_the_end_of_a_right_ends_the_stream_within_seconds(self, asgi_server: "AsgiServer") -> None:
        """S20: revoked token, lost membership."""
        world = a_world()
        job = placed(world.site, 0)
        path = f"/jobs/{job.uid}/logs?follow=true"
        with (
            following(asgi_server, world.alice, path) as (alice, _),
            following(asgi_server, world.group_admin, path) as (gina, _),
            following(asgi_server, world.root, path) as (root, _),
        ):
            ApiToken.objects.filter(user=world.site.user).update(revoked_at=now())
            Membership.objects.filter(user__username="gina").delete()
            alice.wait_for_end(10)
            gina.wait_for_end(10)
            (task,) = tasks_of(job)
            wrote(task, b"more")
            ended(task)
            assert root.wait_for_end() == b"more"
            assert alice.data == gina.data == b""

    def test_a_stranger_and_another_tenant_follow_nothing(self, asgi_server: "AsgiServer") -> None:
        world = a_world()
        job = placed(world.site, 0)
        for api, status in [(world.bob, 404), (world.viewer, 403), (Api("wrong"), 401)]:
            url = f"{asgi_server.url}/api/v1/jobs/{job.uid}/logs?follow=true"
            answer = requests.get(url, headers={"Authorization": f"Bearer {api.token}"}, timeout=30)
            assert answer.status_code == status
            assert answer.headers["Content-Type"] == "application/problem+json"
