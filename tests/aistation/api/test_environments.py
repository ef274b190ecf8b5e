"""Environments over REST."""

from tests.factories.api import Api, World, faults

ENVIRONMENT = {"name": "lab", "group": "vision", "image": "shell", "resources": {"gpus": 1, "gpu_slices": 1}}


def test_an_environment_answers_with_its_own_address(alice: Api) -> None:
    made = alice.post("/environments", {**ENVIRONMENT, "idle_timeout_s": 600, "lifetime_s": 3600})
    assert made["url"] == f"http://{made['id']}.localhost:8000/"
    assert (made["state"], made["idle_timeout_s"], made["lifetime_s"]) == ("queued", 600, 3600)
    assert alice.get(f"/environments/{made['id']}")["id"] == made["id"]
    assert [row["id"] for row in alice.get("/environments?state=queued")["results"]] == [made["id"]]
    assert alice.get("/jobs")["results"] == []


def test_a_profile_stands_for_resources_and_pool(world: World) -> None:
    bundle = {"name": "slice", "kinds": ["environment"], "pool": "default", "resources": {"gpus": 1, "gpu_slices": 2}}
    world.root.post("/profiles", bundle)
    body = {"image": "shell", "group": "vision", "profile": "slice"}
    made = world.alice.post("/environments", body)
    assert (made["resources"]["gpu_slices"], made["pool"]) == (2, "default")
    problem = world.alice.post("/environments", {**ENVIRONMENT, "profile": "slice"}, status=400)
    assert faults(problem) == {"profile": "ambiguous"}
    problem = world.alice.post("/environments", {**body, "profile": "none-such"}, status=400)
    assert faults(problem) == {"profile": "unknown_profile"}


def test_stop_start_and_delete(alice: Api) -> None:
    made = alice.post("/environments", ENVIRONMENT)
    where = f"/environments/{made['id']}"
    for _ in range(2):
        assert alice.post(f"{where}/stop", status=200)["state"] == "stopped"
    assert alice.post(f"{where}/start", status=200)["state"] == "queued"
    assert alice.post(f"{where}/start", status=409)["code"] == "conflict"
    assert [event["event"] for event in alice.get(f"{where}/events")["results"]] == ["submit", "end_stopped", "resume"]
    alice.delete(where)
    assert alice.call("GET", where).status_code == 404
    assert alice.get("/environments")["results"] == []


def test_its_own_token_is_shown_to_nobody(alice: Api, world: World) -> None:
    from aistation.workloads.models import Workload  # noqa: PLC0415

    made = alice.post("/environments", ENVIRONMENT)
    secret = Workload.objects.get(uid=made["id"]).access_token
    assert secret
    for api in (alice, world.root):
        assert secret not in api.call("GET", f"/environments/{made['id']}").content.decode()


def test_a_job_is_no_environment_and_the_other_way_round(alice: Api) -> None:
    environment = alice.post("/environments", ENVIRONMENT)["id"]
    assert alice.call("GET", f"/jobs/{environment}").status_code == 404
    assert alice.call("POST", f"/jobs/{environment}/cancel").status_code == 404
