"""What a node can say to the server, rightly or wrongly."""

import base64
import json
from typing import Any

import pytest
from django.test import Client

from agentapi.v1 import PROTOCOL
from aistation.fleet import services as fleet
from aistation.fleet.models import Device, JoinToken, Node
from aistation.workloads import logs, reports
from aistation.workloads.models import LogChunk, Task, Workload
from tests.aistation.agents.speaker import Agent, a_heartbeat, agent_of
from tests.factories.work import placed, tasks_of
from tests.factories.world import T0, Site, a_node, a_pool, a_site

pytestmark = pytest.mark.django_db
POSTS = ("enrol", "heartbeat", "report", "logs")
NO_MESSAGES = (
    b"",
    b"null",
    b"[]",
    b"{}",
    b"{",
    b'"text"',
    b"NaN",
    b'{"fingerprint": NaN, "version": Infinity}',
    b"\xff\xfe{}",
    b'{"fingerprint": "\xff"}',
    b'{"fingerprint": "\\ud800", "node_name": "\\ud800", "join_token": "\\ud800"}',
    b"[" * 10_000,
    b'{"inventory":' * 1_000,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    b'{"version": 1e999, "fingerprint": 1}',
    b'{"version": ' + b"9" * 5_000 + b"}",
)


@pytest.fixture
def heartbeat() -> dict[str, Any]:
    return a_heartbeat()


@pytest.fixture
def site() -> Site:
    return a_site()


@pytest.fixture
def node(site: Site) -> Node:
    return a_node("n1", site.pool)


@pytest.fixture
def agent(node: Node) -> Agent:
    return agent_of(node)


def body_of(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.content)
    return found


def as_report(task: Task, phase: str = "running", **fields: Any) -> dict[str, Any]:
    return {"task_id": task.uid, "nonce": task.nonce, "phase": phase, **fields}


def as_chunk(task: Task, data: bytes, offset: int = 0, **fields: Any) -> dict[str, Any]:
    text = base64.b64encode(data).decode()
    return {"task_id": task.uid, "nonce": task.nonce, "stream": "stdout", "offset": offset, "data": text, **fields}


class TestEnrol:
    def test_a_join_token_becomes_a_credential_that_works(self, heartbeat: dict[str, Any]) -> None:
        secret = fleet.create_join_token(pool=a_pool(), expires_in_s=3600, now=T0, actor=None).secret
        JoinToken.objects.update(expires_at="2100-01-01T00:00Z")
        asked = {"join_token": secret, "node_name": "n1", "agent_version": "1", "fingerprint": "n1"}
        answer = Agent(token="").post("enrol", asked)
        assert answer.status_code == 200
        token = body_of(answer)["node_token"]
        assert Agent(token=token).post("heartbeat", heartbeat).status_code == 200
        assert Node.objects.get().state == "ready"
        again = Agent(token="").post("enrol", asked)
        assert (again.status_code, body_of(again)["code"]) == (401, "unauthenticated")

    def test_a_bad_name_is_named(self) -> None:
        secret = fleet.create_join_token(pool=a_pool(), expires_in_s=3600, now=T0, actor=None).secret
        JoinToken.objects.update(expires_at="2100-01-01T00:00Z")
        asked = {"join_token": secret, "node_name": "Bob", "agent_version": "1", "fingerprint": "n1"}
        answer = Agent(token="").post("enrol", asked)
        assert answer.status_code == 400
        assert body_of(answer)["errors"][0]["field"] == "node_name"


class TestCredentials:
    @pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic eDp5", "Bearer \xff"])
    def test_without_a_good_one_everything_is_refused(self, agent: Agent, header: str | None) -> None:
        headers = {} if header is None else {"Authorization": header}
        for path in ("heartbeat", "report", "logs"):
            answer = Client().post(f"/agent/v1/{path}", b"{}", content_type="application/json", headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
            assert answer["Content-Type"] == "application/problem+json"
        assert Client().get("/agent/v1/desired", headers=headers).status_code == 401

    def test_a_removed_node_is_refused(self, agent: Agent, node: Node, heartbeat: dict[str, Any]) -> None:
        assert agent.get("desired").status_code == 200
        Node.objects.update(removed_at=T0)
        assert agent.post("heartbeat", heartbeat).status_code == 401
        assert agent.get("desired").status_code == 401

    def test_a_session_is_no_credential_and_a_form_of_another_site_does_nothing(self, site: Site) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(site.user)
        assert client.post("/agent/v1/report", {"a": "b"}).status_code == 401


class TestBadInput:
    """B016, R27: nothing that an agent sends is answered with 5xx."""

    @pytest.mark.parametrize("path", POSTS)
    def test_what_is_no_message_is_a_problem(self, agent: Agent, path: str) -> None:
        for body in NO_MESSAGES:
            answer = agent.post(path, body)
            assert (answer.status_code, body_of(answer)["code"]) == (400, "invalid"), body[:100]
            assert body_of(answer)["errors"], body[:100]

    @pytest.mark.parametrize("path", POSTS)
    def test_ten_megabytes_are_too_large(self, agent: Agent, path: str) -> None:
        answer = agent.post(path, b'{"fingerprint": "' + b"x" * 10_000_000 + b'"}')
        assert (answer.status_code, body_of(answer)["code"]) == (413, "too_large")

    @pytest.mark.parametrize("path", POSTS)
    @pytest.mark.parametrize("rest", [{}, {"fingerprint": 7, "chunks": "x"}])
    def test_another_protocol_is_told_apart_even_when_nothing_else_is_understood(
        self, agent: Agent, path: str, rest: dict[str, Any]
    ) -> None:
        answer = agent.post(path, {"protocol": PROTOCOL + 1, **rest})
        assert (answer.status_code, body_of(answer)["code"]) == (400, "protocol_unsupported")

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("cpu_milli", "many"),
            ("cpu_milli", 10**30),
            ("memory_mib", -1),
            ("memory_mib", None),
            ("devices", [{"uuid": "GPU-1"}]),
            ("devices", [{"uuid": "", "model": "", "memory_mib": 1}]),
        ],
    )
    def test_a_bad_inventory_names_the_field(
        self, agent: Agent, field: str, value: Any, heartbeat: dict[str, Any]
    ) -> None:
        heartbeat["inventory"][field] = value
        answer = agent.post("heartbeat", heartbeat)
        assert answer.status_code == 400
        assert body_of(answer)["errors"][0]["field"].startswith(f"inventory.{field}")

    def test_other_methods_are_refused(self, agent: Agent) -> None:
        for path in POSTS:
            assert agent.get(path).status_code == 405
        assert agent.post("desired", {}).status_code == 405

    def test_texts_that_no_column_can_hold_do_no_harm(self, agent: Agent, heartbeat: dict[str, Any]) -> None:
        heartbeat |= {"boot_id": "\x00" * 500, "address": "x" * 5_000}
        heartbeat["inventory"] |= {"runtime": "podman", "runtime_error": "a\x00" * 5_000, "hostname": "\x00"}
        assert agent.post("heartbeat", heartbeat).status_code == 200
        assert Node.objects.get().runtime == "unknown"

    def test_unknown_fields_of_a_newer_agent_are_ignored(self, agent: Agent, heartbeat: dict[str, Any]) -> None:
        heartbeat |= {"mood": "good"}
        heartbeat["inventory"]["devices"][0]["mig"] = {"mode": 1}
        assert agent.post("heartbeat", heartbeat).status_code == 200


class TestHeartbeat:
    def test_it_answers_the_interval_and_the_version(self, agent: Agent, node: Node, heartbeat: dict[str, Any]) -> None:
        fleet.bump_desired([node.pk])
        assert body_of(agent.post("heartbeat", heartbeat)) == {"interval_s": 5, "version": 2}

    def test_a_clone_gets_the_code_that_stops_it(self, agent: Agent, heartbeat: dict[str, Any]) -> None:
        """B027"""
        answer = agent.post("heartbeat", {**heartbeat, "fingerprint": "clone"})
        assert (answer.status_code, body_of(answer)["code"]) == (409, "node_identity_in_use")
        reported = agent.post("report", {"fingerprint": "clone", "version": 0})
        assert (reported.status_code, body_of(reported)["code"]) == (409, "node_identity_in_use")

    def test_plain_processes_are_refused_where_they_are_not_allowed(
        self, agent: Agent, heartbeat: dict[str, Any], settings: Any
    ) -> None:
        heartbeat["inventory"]["runtime"] = "process"
        settings.ALLOW_PROCESS_RUNTIME = False
        answer = agent.post("heartbeat", heartbeat)
        assert (answer.status_code, body_of(answer)["code"]) == (409, "runtime_refused")
        settings.ALLOW_PROCESS_RUNTIME = True
        assert agent.post("heartbeat", heartbeat).status_code == 200

    def test_cards_without_figures_are_null(self, agent: Agent, heartbeat: dict[str, Any]) -> None:
        """B056"""
        card = {"uuid": "GPU-x", "model": "V100", "memory_mib": None, "healthy": False, "reason": "GPU is lost"}
        heartbeat["inventory"]["devices"] = [card]
        assert agent.post("heartbeat", heartbeat).status_code == 200
        device = Device.objects.get(uuid="GPU-x")
        assert (device.memory_mib, device.power_mw, device.usable, device.reason) == (None, None, False, "GPU is lost")


class TestDesired:
    def test_a_placed_task_is_wanted_with_its_cards(self, site: Site, agent: Agent, node: Node) -> None:
        job = placed(site, 2)
        wanted = body_of(agent.get("desired"))
        (task,) = wanted["tasks"]
        assert wanted["version"] == 2
        assert (task["workload_id"], task["stop"]) == (job.uid, False)
        assert task["devices"] == [{"uuid": "GPU-n1-2", "memory_mib": 32_510, "compute_milli": 1000, "whole": True}]

    def test_another_node_sees_nothing_of_it(self, site: Site, node: Node) -> None:
        placed(site)
        other = agent_of(a_node("n2", site.pool), "other")
        assert body_of(other.get("desired"))["tasks"] == []

    def test_a_row_that_the_wire_cannot_carry_stops_no_other(self, site: Site, agent: Agent) -> None:
        """B016"""
        bad, good = placed(site, 0), placed(site, 1)
        Workload.objects.filter(pk=bad.pk).update(env={"A": {"nested": 1}})
        assert [task["workload_id"] for task in body_of(agent.get("desired"))["tasks"]] == [good.uid]


class TestReport:
    def test_what_a_container_does_reaches_the_job(self, site: Site, agent: Agent) -> None:
        job = placed(site)
        (task,) = tasks_of(job)
        answer = agent.report(as_report(task, "running", started_at="2026-01-05T09:00:01Z"), version=2)
        assert body_of(answer) == {"settled": [], "remove": [], "desired": None}
        job.refresh_from_db()
        assert job.state == "running"

    def test_an_end_with_its_whole_log_is_settled_and_a_repeat_changes_nothing(self, site: Site, agent: Agent) -> None:
        job = placed(site)
        (task,) = tasks_of(job)
        end = as_report(task, "exited", exit_code=0, log_bytes=3)
        assert body_of(agent.report(end))["settled"] == []
        assert body_of(agent.post("logs", {"chunks": [as_chunk(task, b"abc")]})) == {"stored": {task.uid: 3}}
        for _ in range(2):
            assert body_of(agent.report(end))["settled"] == [task.uid]
        job.refresh_from_db()
        assert job.state == "succeeded"
        assert Device.objects.filter(taken_milli__gt=0).count() == 0

    def test_the_desired_state_comes_along_when_it_is_another(self, site: Site, agent: Agent) -> None:
        placed(site)
        assert body_of(agent.report(version=2))["desired"] is None
        assert body_of(agent.report(version=1))["desired"]["version"] == 2
        assert len(body_of(agent.report(version=99))["desired"]["tasks"]) == 1

    def test_a_node_speaks_for_its_own_tasks_only(self, site: Site, agent: Agent) -> None:
        """S29: neither another node's, nor one's own with a wrong nonce."""
        job = placed(site)
        (task,) = tasks_of(job)
        other = agent_of(a_node("n2", site.pool), "other")
        assert other.report(as_report(task, "exited", exit_code=0)).status_code == 200
        assert agent.report({**as_report(task, "exited"), "nonce": "guess"}).status_code == 200
        assert body_of(other.post("logs", {"chunks": [as_chunk(task, b"x")]})) == {"stored": {}}
        job.refresh_from_db()
        task.refresh_from_db()
        assert (job.state, task.phase, task.log_stored) == ("scheduled", "pending", 0)

    def test_one_bad_item_stops_no_other(
        self, site: Site, agent: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """B016: an error on one task is logged; the others are taken in."""
        jobs = [placed(site, number) for number in range(3)]
        tasks = [tasks_of(job)[0] for job in jobs]
        Workload.objects.filter(pk=jobs[0].pk).update(stop_reason="no_such_reason")
        weird = {"task_id": "\x00", "nonce": "\x00", "phase": "dreaming"}
        answer = agent.report(weird, *[as_report(task) for task in tasks])
        assert answer.status_code == 200
        assert [Workload.objects.get(pk=job.pk).state for job in jobs] == ["scheduled", "running", "running"]
        assert tasks[0].uid in caplog.text

    def test_a_report_has_a_length(self, agent: Agent) -> None:
        many = [{"task_id": "t", "nonce": "n", "phase": "running"}] * 1001
        assert agent.report(*many).status_code == 400

    def test_only_containers_that_are_surely_ours_and_done_may_be_removed(self, site: Site, agent: Agent) -> None:
        job = placed(site)
        (task,) = tasks_of(job)
        foreign = [
            {"task_id": task.uid, "nonce": task.nonce, "container_id": "1"},
            {"task_id": task.uid, "nonce": "guess", "container_id": "2"},
            {"task_id": "job-of-another-installation", "nonce": "n", "container_id": "3"},
            {"task_id": "\x00", "nonce": "n", "container_id": "4"},
        ]
        assert body_of(agent.report(foreign=foreign))["remove"] == []
        agent.report(as_report(task, "exited", exit_code=0, log_bytes=0))
        assert body_of(agent.report(foreign=foreign))["remove"] == [task.uid]


class TestLogs:
    def test_bytes_arrive_exactly_and_repeats_are_harmless(self, site: Site, agent: Agent) -> None:
        (task,) = tasks_of(placed(site))
        every = bytes(range(256)) * 4
        agent.post("logs", {"chunks": [as_chunk(task, every[:600])]})
        answer = agent.post("logs", {"chunks": [as_chunk(task, every[:600]), as_chunk(task, every[600:], 600)]})
        assert body_of(answer) == {"stored": {task.uid: len(every)}}
        assert logs.read(task.pk)[0] == every

    def test_a_gap_is_refused_by_answering_the_end(self, site: Site, agent: Agent) -> None:
        (task,) = tasks_of(placed(site))
        assert body_of(agent.post("logs", {"chunks": [as_chunk(task, b"x", 10)]})) == {"stored": {task.uid: 0}}

    def test_a_log_of_nobody_is_unknown(self, agent: Agent) -> None:
        stray = {"task_id": "t", "nonce": "n", "stream": "stdout", "offset": 0, "data": "eA=="}
        assert body_of(agent.post("logs", {"chunks": [stray]})) == {"stored": {}}

    def test_a_chunk_and_a_batch_have_a_length(self, site: Site, agent: Agent) -> None:
        (task,) = tasks_of(placed(site))
        assert agent.post("logs", {"chunks": [as_chunk(task, b"x" * (256 * 1024 + 1))]}).status_code == 400
        four = [as_chunk(task, b"x" * (256 * 1024), number * 256 * 1024) for number in range(4)]
        assert body_of(agent.post("logs", {"chunks": four})) == {"stored": {task.uid: 1024 * 1024}}

    @pytest.mark.parametrize("data", ["%%%", "e", 7, None])
    def test_what_is_not_base64_is_refused(self, site: Site, agent: Agent, data: Any) -> None:
        (task,) = tasks_of(placed(site))
        answer = agent.post("logs", {"chunks": [{**as_chunk(task, b""), "data": data}]})
        assert answer.status_code in (200, 400)
        assert not LogChunk.objects.exists()

    def test_a_log_that_cannot_be_stored_is_asked_for_again_and_stops_no_other(
        self, site: Site, agent: Agent, caplog: pytest.LogCaptureFixture
    ) -> None:
        """B016: a row of the database stands in the way of one log."""
        bad, good = (tasks_of(placed(site, number))[0] for number in (0, 1))
        LogChunk.objects.create(task=bad, offset=0, stream="stdout", size=1, data=b"?")
        answer = agent.post("logs", {"chunks": [as_chunk(bad, b"abc"), as_chunk(good, b"def")]})
        assert body_of(answer) == {"stored": {bad.uid: 0, good.uid: 3}}
        assert bad.uid in caplog.text


def test_what_the_wire_knows_is_what_the_services_take() -> None:
    """A field of a report that no service reads would be lost in silence."""
    assert set(reports.TaskFacts.__dataclass_fields__) == {
        *("task_uid", "nonce", "phase", "exit_code", "oom_killed", "error", "message", "started_at", "finished_at"),
        *("container_id", "host_port", "log_bytes", "log_truncated"),
    }
