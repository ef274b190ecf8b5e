"""Jobs over REST."""

import time
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from aistation.audit.models import AuditEvent
from aistation.quotas.services import QuotaChange, set_quotas
from aistation.workloads.models import Transition, Workload
from tests.factories.api import JOB, Api, World, a_world, faults
from tests.factories.work import placed, submitted
from tests.factories.world import T0

FIELDS = {
    "id", "name", "group", "user", "pool", "image", "command", "env_names", "folders", "resources", "priority", "state",
    "reason", "message", "pending_reasons", "queue_position", "attempt", "node", "nodes", "gpus", "exit_code",
    "submitted_at", "queued_at", "started_at", "ended_at", "tasks", "preemptible", "time_limit_s", "max_retries",
    "estimate", "same_node", "spread", "node_labels", "lent_by", "saved_at",
}  # fmt: skip


class TestSubmit:
    def test_a_job_answers_with_all_that_the_contract_names(self, alice: Api) -> None:
        job = alice.post("/jobs", JOB)
        assert set(job) == FIELDS
        assert (job["state"], job["reason"], job["queue_position"], job["attempt"]) == ("queued", None, 1, 0)
        assert (job["node"], job["nodes"], job["gpus"], job["exit_code"]) == (None, [], [], None)
        assert job["pool"] == "default"
        assert job["resources"]["gpus"] == 1
        assert alice.get(f"/jobs/{job['id']}") == job

    def test_the_contracts_example_is_understood_whole(self, world: World) -> None:
        example = {
            "name": "resnet50", "group": "vision", "pool": "default", "image": "shell",
            "command": ["python", "train.py"], "env": {"EPOCHS": "90"},
            "resources": {
                "cpu_milli": 4000, "memory_mib": 16384, "gpus": 1, "gpu_slices": None, "gpu_memory_mib": None,
                "gpu_compute_milli": None, "gpu_model": None,
            },
            "tasks": 1, "priority": 50, "preemptible": True, "time_limit_s": 43200, "max_retries": 0,
            "folders": [{"folder": "home", "path": "/workspace", "mode": "rw"}],
        }  # fmt: skip
        job = world.alice.post("/jobs", example)
        assert (job["env_names"], job["time_limit_s"]) == (["EPOCHS"], 43200)
        assert job["folders"][0] | {"id": ""} == {"folder": "home", "id": "", "path": "/workspace", "mode": "rw"}

    def test_a_first_job_needs_neither_group_nor_pool(self, world: World) -> None:
        job = world.alice.post("/jobs", {"image": "shell"})
        assert (job["group"], job["pool"], job["name"], job["resources"]["cpu_milli"]) == (
            "vision",
            "default",
            "job",
            1000,
        )

    def test_values_of_variables_come_back_nowhere(self, alice: Api, world: World) -> None:
        """B063: variables are write-only."""
        canary = "canary-4711"
        job = alice.post("/jobs", {**JOB, "env": {"SECRET": canary}}, idempotency_key="k")
        alice.post("/jobs", {**JOB, "env": {"SECRET": canary, "1X": canary}}, status=400)
        paths = ["/jobs", f"/jobs/{job['id']}", f"/jobs/{job['id']}/events", "/queue", "/usage"]
        told = [api.call("GET", path).content for path in paths for api in (alice, world.root)]
        told += [world.root.call("GET", path).content for path in ("/audit", "/metrics")]
        assert not [answer for answer in told if canary.encode() in answer]
        assert canary not in str(list(AuditEvent.objects.values())) + str(list(Transition.objects.values()))

    @pytest.mark.parametrize(
        ("env", "code"),
        [
            ({"A B": "1"}, "bad_name"),
            ({"1X": "1"}, "bad_name"),
            ({"": "1"}, "bad_name"),
            ({"LD_PRELOAD": "x.so"}, "reserved_name"),
            ({"A": "x" * 131_072}, "too_long"),
        ],
    )
    def test_awkward_variables_are_refused_at_submit(self, alice: Api, env: dict[str, str], code: str) -> None:
        """B073: nothing fails after queueing for its size or name."""
        assert faults(alice.post("/jobs", {**JOB, "env": env}, status=400)) == {f"env.{next(iter(env))}": code}

    def test_awkward_values_are_kept_byte_for_byte(self, alice: Api) -> None:
        """B073: newline, CRLF, quotes, substitution, equals, leading dash, emoji, empty."""
        env = {"A": "a\nb\r\n'\"`$(id)`=-🦖", "B": "", "C": "-x", "PATH": "/opt/bin:/bin"}
        command = ["sh", "-c", 'echo "$A"\n# \'\r\n', "", "-n", "🦖" * 1000, "x" * 100_000]
        job = alice.post("/jobs", {**JOB, "env": env, "command": command})
        stored = Workload.objects.get(uid=job["id"])
        assert (stored.env, stored.command) == (env, command)
        assert job["command"] == command

    def test_a_command_is_a_list_and_never_split_for_the_caller(self, alice: Api) -> None:
        assert faults(alice.post("/jobs", {**JOB, "command": "python train.py"}, status=400)) == {
            "command": "invalid_type"
        }

    @pytest.mark.parametrize(
        ("resources", "field"),
        [
            ({"gpus": 9}, "resources.gpus"),
            ({"gpus": 1, "gpu_model": "H100"}, "resources.gpu_model"),
            ({"gpus": 1, "gpu_memory_mib": 32_769}, "resources.gpu_memory_mib"),
            ({"gpus": 0, "gpu_memory_mib": 4096}, "resources.gpus"),
            ({"gpus": 1, "gpu_slices": 9}, "resources.gpu_slices"),
            ({"gpus": 1, "memory_mib": 393_217}, "resources.memory_mib"),
            ({"gpus": 1, "cpu_milli": 48_001}, "resources.cpu_milli"),
        ],
    )
    def test_what_can_never_start_is_refused_with_the_number(
        self, alice: Api, resources: dict[str, Any], field: str
    ) -> None:
        """B015: each one more than there is."""
        problem = alice.post("/jobs", {**JOB, "resources": resources}, status=400)
        assert problem["code"] == "never_fits"
        assert field in faults(problem)
        assert any(character.isdigit() for character in problem["errors"][0]["message"])

    @pytest.mark.parametrize(
        "resources",
        [{"gpus": -1}, {"gpu_memory_mib": 0}, {"gpu_compute_milli": 1001}, {"memory_mib": 0}, {"cpu_milli": 2**31}],
    )
    def test_numbers_without_meaning_are_out_of_range(self, alice: Api, resources: dict[str, Any]) -> None:
        """B015, B074."""
        problem = alice.post("/jobs", {**JOB, "resources": {"gpus": 1, **resources}}, status=400)
        assert faults(problem) == {f"resources.{next(iter(resources))}": "out_of_range"}

    @pytest.mark.parametrize(
        "resources", [{"gpus": 8}, {"gpus": 1, "gpu_memory_mib": 32_768}, {"gpus": 1, "memory_mib": 393_216}]
    )
    def test_the_largest_that_fits_is_queued(self, alice: Api, resources: dict[str, Any]) -> None:
        """B015: at the limit."""
        assert alice.post("/jobs", {**JOB, "resources": resources})["state"] == "queued"

    @pytest.mark.parametrize("value", [2.5, "2.5", 2.50, 1e3, "2", 2.0, True, [2], {}])
    def test_a_number_has_one_form(self, alice: Api, value: object) -> None:
        """B011: integers only; everything else is refused with the field."""
        problem = alice.post("/jobs", {**JOB, "resources": {"gpus": value}}, status=400)
        assert faults(problem) == {"resources.gpus": "invalid_type"}

    def test_no_resources_and_empty_ones_mean_the_same(self, alice: Api) -> None:
        """B011."""
        bare = {key: value for key, value in JOB.items() if key != "resources"}
        assert alice.post("/jobs", bare)["resources"] == alice.post("/jobs", {**bare, "resources": {}})["resources"]

    def test_every_scope_that_forbids_it_is_named(self, world: World) -> None:
        for user in (None, world.site.user):
            change = QuotaChange(pool=None, limits={"gpu_milli": 2000}, guaranteed={}, counts={})
            set_quotas(group=world.site.group, user=user, changes=[change], now=T0, actor=world.site.actor)
        problem = world.alice.post("/jobs", {**JOB, "resources": {"gpus": 3}}, status=400)
        messages = " ".join(error["message"] for error in problem["errors"])
        assert len(problem["errors"]) == 2
        assert "alice" in messages
        assert "vision" in messages

    def test_another_groups_name_and_image_are_unknown(self, world: World) -> None:
        assert faults(world.bob.post("/jobs", JOB, status=400))["group"] == "unknown_group"
        world.root.post("/images", {"name": "own", "reference": "own:1", "kinds": ["job"], "group": "vision"})
        body = {**JOB, "group": "speech", "image": "own"}
        assert faults(world.bob.post("/jobs", body, status=400)) == {"image": "unknown_image"}


class TestReading:
    def test_filters_narrow_the_list(self, world: World) -> None:
        first, second = submitted(world.site, name="alpha"), submitted(world.site, name="Beta")
        world.alice.post(f"/jobs/{first.uid}/cancel", status=200)
        for query, expected in [
            ("state=queued", [second.uid]),
            ("state=cancelled,queued", [second.uid, first.uid]),
            ("name=ETA", [second.uid]),
            ("name=.", []),
            ("name=***=e", []),
            ("name=%5C", []),
            ("user=alice&group=vision&pool=default", [second.uid, first.uid]),
            ("user=bob", []),
            ("group=speech", []),
            ("pool=nothing", []),
        ]:
            assert [job["id"] for job in world.alice.get(f"/jobs?{query}")["results"]] == expected, query
        problem = world.alice.call("GET", "/jobs?state=queued,wrong").json()
        assert faults(problem) == {"state": "unknown_choice"}

    def test_pages_show_each_job_once_also_when_new_ones_come(self, world: World) -> None:
        uids = [submitted(world.site).uid for _ in range(7)]
        seen = []
        page = world.alice.get("/jobs?limit=3&state=queued")
        while True:
            seen += [job["id"] for job in page["results"]]
            assert len(page["results"]) <= 3
            submitted(world.site)
            if page["next"] is None:
                break
            page = world.alice.get(page["next"])
        assert seen == uids[::-1]

    @pytest.mark.parametrize(
        ("limit", "status"),
        [("1000000000", 200), ("201", 200), ("-1", 400), ("0", 400), ("abc", 400), ("1.5", 400), ("9" * 30, 400)],
    )
    def test_a_limit_is_bounded(self, alice: Api, limit: str, status: int) -> None:
        """B075."""
        assert alice.call("GET", f"/jobs?limit={limit}").status_code == status

    @pytest.mark.parametrize("cursor", ["x", "W10:abc", "", "%00", "eyJ9", "WzFd:1"])
    def test_a_made_up_cursor_is_a_mistake(self, alice: Api, cursor: str) -> None:
        assert "cursor" in faults(alice.call("GET", f"/jobs?cursor={cursor}").json())

    def test_a_cursor_of_another_list_is_a_mistake(self, world: World) -> None:
        for _ in range(2):
            submitted(world.site)
        following = world.alice.get("/jobs?limit=1")["next"]
        cursor = following.partition("cursor=")[2].partition("&")[0]
        assert world.alice.call("GET", f"/environments?cursor={cursor}").status_code == 400

    def test_a_page_of_any_length_costs_the_same_number_of_queries(self, world: World) -> None:
        """B075: also with cards, tasks and places in the queue."""
        counts = []
        for card in range(4):
            placed(world.site, card)
            submitted(world.site)
            with CaptureQueriesContext(connection) as queries:
                assert len(world.alice.get("/jobs")["results"]) == 2 * (card + 1)
            counts.append(len(queries))
        assert counts[1:] == [counts[1]] * 3
        assert counts[1] <= 12

    def test_a_placed_job_shows_node_and_cards_as_granted(self, world: World) -> None:
        job = world.alice.get(f"/jobs/{placed(world.site, 0, 3).uid}")
        assert (job["node"], job["nodes"], job["attempt"], job["queue_position"]) == ("n1", ["n1", "n1"], 1, None)
        assert [card["uuid"] for card in job["gpus"]] == ["GPU-n1-0", "GPU-n1-3"]
        assert job["gpus"][0] == {
            "uuid": "GPU-n1-0", "node": "n1", "model": "V100-32GB", "memory_mib": 32_510, "compute_milli": 1000,
        }  # fmt: skip

    def test_events_tell_the_story_in_order(self, world: World) -> None:
        job = placed(world.site, 0)
        events = world.alice.get(f"/jobs/{job.uid}/events")["results"]
        assert [event["event"] for event in events] == ["submit", "place"]
        assert events[0]["actor"] == "alice"

    def test_the_queue_shows_positions_and_reasons_of_the_callers_groups_only(self, world: World) -> None:
        low = submitted(world.site, priority=10)
        high = submitted(world.site, priority=90)
        held = submitted(world.site)
        world.alice.post(f"/jobs/{held.uid}/hold", status=200)
        rows = world.alice.get("/queue")["results"]
        assert [(row["id"], row["position"]) for row in rows] == [(high.uid, 1), (held.uid, None), (low.uid, 2)]
        assert world.bob.get("/queue")["results"] == []
        paged = world.alice.get("/queue?limit=1")
        assert [row["id"] for row in world.alice.get(paged["next"])["results"]] == [held.uid]


class TestChanging:
    def test_cancel_is_the_same_once_and_twice(self, world: World) -> None:
        job = submitted(world.site)
        for _ in range(2):
            ended = world.alice.post(f"/jobs/{job.uid}/cancel", status=200)
            assert (ended["state"], ended["reason"]) == ("cancelled", "user_stopped")
        assert Transition.objects.filter(workload=job).count() == 2

    def test_hold_and_release(self, world: World) -> None:
        job = submitted(world.site)
        assert world.alice.post(f"/jobs/{job.uid}/hold", status=200)["state"] == "held"
        assert world.alice.post(f"/jobs/{job.uid}/hold", status=409)["code"] == "conflict"
        assert world.alice.post(f"/jobs/{job.uid}/release", status=200)["state"] == "queued"

    def test_a_change_needs_the_version_that_the_caller_saw(self, world: World) -> None:
        job = submitted(world.site)
        seen = world.alice.call("GET", f"/jobs/{job.uid}")["ETag"]
        changed = world.alice.patch(f"/jobs/{job.uid}", {"priority": 60}, if_match=seen)
        assert changed["priority"] == 60
        late = world.alice.patch(f"/jobs/{job.uid}", {"priority": 70}, status=412, if_match=seen)
        assert late["code"] == "precondition_failed"
        assert world.alice.patch(f"/jobs/{job.uid}", {"priority": 80}, if_match="*")["priority"] == 80

    def test_a_priority_above_the_quota_is_refused_at_submit_and_change(self, world: World) -> None:
        """S18."""
        change = QuotaChange(pool=None, limits={}, guaranteed={}, counts={"max_priority": 60})
        set_quotas(group=world.site.group, user=None, changes=[change], now=T0, actor=world.site.actor)
        assert faults(world.alice.post("/jobs", {**JOB, "priority": 61}, status=400)) == {"priority": "exceeds_quota"}
        job = world.alice.post("/jobs", {**JOB, "priority": 60})
        problem = world.alice.patch(f"/jobs/{job['id']}", {"priority": 61}, status=400)
        assert faults(problem) == {"priority": "exceeds_quota"}

    def test_a_job_that_is_over_cannot_change(self, world: World) -> None:
        job = submitted(world.site)
        world.alice.post(f"/jobs/{job.uid}/cancel", status=200)
        assert world.alice.patch(f"/jobs/{job.uid}", {"priority": 1}, status=409)["code"] == "conflict"

    def test_a_body_where_none_belongs_is_a_mistake(self, world: World) -> None:
        job = submitted(world.site)
        problem = world.alice.post(f"/jobs/{job.uid}/cancel", {"force": True}, status=400)
        assert faults(problem) == {"force": "unknown_field"}


@pytest.mark.django_db(transaction=True)
def test_a_dry_run_says_where_or_why_not_and_writes_nothing() -> None:
    world = a_world()
    plan = world.alice.post("/jobs/dry-run", {**JOB, "resources": {"gpus": 2}}, status=200)
    assert plan["starts_now"] is True
    assert plan["tasks"][0]["node"] == "n1"
    assert len(plan["tasks"][0]["gpus"]) == 2
    placed(world.site, *range(8))
    waiting = world.alice.post("/jobs/dry-run", JOB, status=200)
    assert (waiting["starts_now"], waiting["queue_position"]) == (False, 1)
    assert waiting["pending_reasons"][0]["code"] == "pool_full"
    assert world.alice.post("/jobs/dry-run", {**JOB, "resources": {"gpus": 9}}, status=400)["code"] == "never_fits"
    assert Workload.objects.count() == 1


@pytest.mark.slow
def test_ten_thousand_jobs_are_listed_as_fast_as_a_hundred(world: World) -> None:
    """B075: within twice, whatever the filter, also one that matches nothing."""
    submitted(world.site)
    copied = [str(field.column) for field in Workload._meta.fields if field.column not in ("id", "uid", "state")]

    def fill(first: int, last: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO workloads_workload (uid, state, {', '.join(copied)})"  # noqa: S608 - our own columns
                f" SELECT 'job-' || lpad(n::text, 12, '0'), 'succeeded', {', '.join(copied)}"
                " FROM (SELECT * FROM workloads_workload ORDER BY id LIMIT 1) AS one, generate_series(%s, %s) AS n",
                [first, last],
            )
            cursor.execute("ANALYZE workloads_workload")

    def best(path: str) -> float:
        """Of several tries, so that other work on the machine does not count."""
        took = []
        for _ in range(6):
            started = time.perf_counter()
            world.alice.get(path)
            took.append(time.perf_counter() - started)
        return min(took)

    paths = ("/jobs", "/jobs?state=succeeded", "/jobs?user=alice&name=train", "/jobs?state=failed", "/jobs?name=zzz")
    fill(1, 100)
    few = [best(path) for path in paths]
    fill(101, 10_000)
    many = [best(path) for path in paths]
    assert all(new < 2 * old + 0.02 for old, new in zip(few, many, strict=True)), (few, many)
