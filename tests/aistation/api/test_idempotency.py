"""A POST that is sent twice is done once (B076)."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from aistation.api.models import IdempotencyRecord
from aistation.api.services import prune_answers
from aistation.core.clock import now
from aistation.tenancy.models import ApiToken, User
from aistation.workloads.models import Workload
from tests.factories.api import JOB, Api, World, a_world, api_of, faults

KEY = "0b9d6c9e-one"


def test_the_second_request_gets_the_first_answer_and_does_nothing(alice: Api) -> None:
    first = alice.call("POST", "/jobs", JOB, idempotency_key=KEY)
    again = alice.call("POST", "/jobs", JOB, idempotency_key=KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert again["Idempotent-Replayed"] == "true"
    assert Workload.objects.count() == 1


def test_the_order_of_names_and_spaces_do_not_matter_but_a_value_does(alice: Api) -> None:
    first = alice.post("/jobs", JOB, idempotency_key=KEY)
    turned = dict(reversed(JOB.items()))
    assert alice.post("/jobs", turned, idempotency_key=KEY)["id"] == first["id"]
    other = alice.post("/jobs", {**JOB, "priority": 51}, status=409, idempotency_key=KEY)
    assert other["code"] == "idempotency_conflict"
    elsewhere = alice.post(f"/jobs/{first['id']}/cancel", status=409, idempotency_key=KEY)
    assert elsewhere["code"] == "idempotency_conflict"


def test_keys_of_two_people_have_nothing_to_do_with_each_other(world: World) -> None:
    first = world.alice.post("/jobs", JOB, idempotency_key=KEY)
    assert world.root.post("/jobs", JOB, idempotency_key=KEY)["id"] != first["id"]


def test_a_refused_request_may_come_again_with_the_same_key(alice: Api) -> None:
    wrong = {**JOB, "image": "nothing"}
    assert faults(alice.post("/jobs", wrong, status=400, idempotency_key=KEY)) == {"image": "unknown_image"}
    assert IdempotencyRecord.objects.count() == 0
    alice.post("/jobs", JOB, idempotency_key=KEY)


def test_a_secret_is_kept_nowhere_and_its_request_not_repeated(alice: Api) -> None:
    secret = alice.post("/tokens", {"name": "ci"}, idempotency_key=KEY)["token"]
    assert secret not in str(list(IdempotencyRecord.objects.values()))
    again = alice.post("/tokens", {"name": "ci"}, status=409, idempotency_key=KEY)
    assert again["code"] == "secret_shown_once"
    assert ApiToken.objects.filter(name="ci").count() == 1


def test_a_key_is_forgotten_after_a_day(alice: Api) -> None:
    first = alice.post("/jobs", JOB, idempotency_key=KEY)
    IdempotencyRecord.objects.update(created_at=now() - timedelta(hours=25))
    assert alice.post("/jobs", JOB, idempotency_key=KEY)["id"] != first["id"]
    IdempotencyRecord.objects.update(created_at=now() - timedelta(hours=25))
    assert prune_answers(now()) == 1


@pytest.mark.parametrize("key", ["", " ", "a b", "ü", "x" * 256])
def test_an_unusable_key_is_a_mistake(alice: Api, key: str) -> None:
    assert faults(alice.post("/jobs", JOB, status=400, idempotency_key=key)) == {"Idempotency-Key": "invalid"}


def in_threads(count: int, api: Api, path: str, body: object, **headers: str) -> list[tuple[int, object]]:
    def one(_: int) -> tuple[int, object]:
        try:
            answer = Api(api.token).call("POST", path, body, **headers)
            return answer.status_code, answer.json()
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.django_db(transaction=True)
def test_ten_at_once_with_one_key_make_one_job() -> None:
    world = a_world()
    answers = in_threads(10, world.alice, "/jobs", JOB, idempotency_key=KEY)
    assert {status for status, _ in answers} == {201}
    assert all(body == answers[0][1] for _, body in answers)
    assert Workload.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_same_name_or_member_at_once_is_made_once_and_never_500() -> None:
    """B076, S30: without a key the unique constraint decides."""
    world = a_world()
    statuses = sorted(status for status, _ in in_threads(10, world.root, "/groups", {"name": "new"}))
    assert statuses == [201] + [409] * 9
    user = User.objects.create(username="zoe", created_at=now())
    members = in_threads(10, world.root, "/groups/new/members", {"username": "zoe"})
    assert {status for status, _ in members} == {200}
    assert api_of(user).get("/me")["groups"] == [{"name": "new", "role": "member"}]
    homes = in_threads(8, world.alice, "/jobs", {**JOB, "folders": [{"folder": "home", "path": "/work"}]})
    assert {status for status, _ in homes} == {201}
    assert len(world.alice.get("/folders")["results"]) == 1
