"""Passes as rows: what opens, for how long, and what a publication reads of them."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection, connections
from django.test import Client

from aistation.core.clock import now
from aistation.core.errors import NotFoundError
from aistation.fleet.models import Node
from aistation.ingress import files, selectors, services
from aistation.ingress.envoy import AUTHORIZE_PATH, SECRET_HEADER, gateway_secret, path_of
from aistation.ingress.models import Pass
from aistation.ingress.publish import write_routes
from aistation.ingress.tasks import write_routes_task
from aistation.tenancy.models import User
from aistation.tenancy.policy import Role
from aistation.tenancy.services import set_member
from aistation.workloads.models import Workload
from tests.aistation.ingress.street import Neighbourhood
from tests.factories.world import a_node, a_site

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def files_directory(settings: Any, tmp_path: Path) -> Path:
    settings.GATEWAY_DIR = tmp_path / "gateway"
    return tmp_path / "gateway"


@pytest.fixture
def place(db: None) -> Neighbourhood:
    site = a_site()
    return Neighbourhood(site, a_node("n1", site.pool, cards=0))


def _sign_in(user: User) -> str:
    client = Client()
    client.force_login(user)
    key = client.session.session_key
    assert key is not None
    return key


def _code(place: Neighbourhood, environment: Workload, session_key: str | None = None) -> str:
    user = User.objects.get(pk=place.site.user.pk)
    return services.issue_code(
        actor=place.site.actor,
        workload_id=environment.pk,
        session_key=session_key or _sign_in(user),
        session_hash=user.get_session_auth_hash(),
        next_path="/lab",
        now=now(),
    )


@pytest.fixture
def environment(place: Neighbourhood) -> Workload:
    return place.environment(32_001)


def test_a_code_is_good_once_and_for_half_a_minute(place: Neighbourhood, environment: Workload) -> None:
    code = _code(place, environment)
    assert services.redeem(code=code, uid=environment.uid, now=now()).next_path == "/lab"
    with pytest.raises(NotFoundError):
        services.redeem(code=code, uid=environment.uid, now=now())
    late = _code(place, environment)
    with pytest.raises(NotFoundError):
        services.redeem(code=late, uid=environment.uid, now=now() + services.CODE_LIFETIME)


@pytest.mark.parametrize("meanwhile", ["signed out", "left"])
def test_a_code_is_worth_nothing_when_its_person_may_not_enter_any_more(
    place: Neighbourhood, environment: Workload, meanwhile: str
) -> None:
    code = _code(place, environment)
    if meanwhile == "signed out":
        Session.objects.all().delete()
    else:
        set_member(group=place.site.group, username="alice", role=Role.VIEWER, now=now(), actor=None)
    with pytest.raises(NotFoundError):
        services.redeem(code=code, uid=environment.uid, now=now())


def test_over_https_the_cookie_is_locked_to_its_host(  # S23
    place: Neighbourhood, environment: Workload, settings: Any
) -> None:
    settings.PORTAL_URL = "https://localhost"
    headers = {"host": f"{environment.uid}.localhost", SECRET_HEADER: gateway_secret(settings.SECRET_KEY)}
    path = f"{AUTHORIZE_PATH}/.aistation/enter?code={_code(place, environment)}"
    cookie = Client().get(path, headers=headers).cookies["__Host-aistation_pass"]
    assert (cookie["secure"], cookie["httponly"], cookie["path"], cookie["domain"]) == (True, True, "/", "")


def test_two_who_bring_the_same_code_get_one_cookie(transactional_db: None, place: Neighbourhood) -> None:
    environment = place.environment(32_001)
    code = _code(place, environment)
    won = _at_once(4, lambda: services.redeem(code=code, uid=environment.uid, now=now()), losing=NotFoundError)
    assert won == 1


def test_a_cookie_lives_on_while_it_is_used_and_ends_when_it_is_not(
    place: Neighbourhood, environment: Workload
) -> None:
    begun = now()
    cookie = services.redeem(code=_code(place, environment), uid=environment.uid, now=begun).cookie
    uid = environment.uid

    def entry(after: timedelta) -> selectors.Entry | None:
        found = selectors.find_entry(cookie=cookie, uid=uid, now=begun + after)
        if found is not None:
            services.renew(pass_id=found.pass_id, expires_at=found.expires_at, now=begun + after)
        return found

    half = services.PASS_LIFETIME / 2
    assert entry(timedelta(seconds=1))
    assert entry(half + timedelta(minutes=5))
    assert entry(2 * half + timedelta(minutes=5)), "renewed half-way"
    assert entry(5 * half) is None


def test_a_newer_pass_of_the_same_sign_in_replaces_the_older_after_a_minute(
    place: Neighbourhood, environment: Workload
) -> None:
    key, begun = _sign_in(place.site.user), now()
    old = services.redeem(code=_code(place, environment, key), uid=environment.uid, now=begun).cookie
    new = services.redeem(code=_code(place, environment, key), uid=environment.uid, now=begun).cookie
    assert selectors.find_entry(cookie=old, uid=environment.uid, now=begun)
    later = begun + timedelta(minutes=2)
    assert selectors.find_entry(cookie=old, uid=environment.uid, now=later) is None
    assert selectors.find_entry(cookie=new, uid=environment.uid, now=later)
    services.prune(later)
    assert Pass.objects.count() == 1
    assert selectors.routes()[0].generation == 0, "nobody's access was taken"


def test_finding_what_a_cookie_opens_takes_two_queries(
    place: Neighbourhood, environment: Workload, django_assert_num_queries: Callable[..., Any]
) -> None:
    cookie = services.redeem(code=_code(place, environment), uid=environment.uid, now=now()).cookie
    with django_assert_num_queries(2):
        assert selectors.find_entry(cookie=cookie, uid=environment.uid, now=now())


def test_looking_for_lost_access_takes_two_queries_for_any_number_of_passes(
    place: Neighbourhood, environment: Workload, django_assert_num_queries: Callable[..., Any]
) -> None:
    for _ in range(5):
        services.redeem(code=_code(place, environment), uid=environment.uid, now=now())
    with django_assert_num_queries(2):
        assert services.revoke_lost(now()) == 0


def test_access_that_is_lost_is_taken_once_and_raises_the_generation(
    place: Neighbourhood, environment: Workload
) -> None:
    services.redeem(code=_code(place, environment), uid=environment.uid, now=now())
    _code(place, environment)  # never redeemed: nobody was in with it
    assert [route.generation for route in selectors.routes()] == [0]
    Session.objects.all().delete()
    assert [services.revoke_lost(now()), services.revoke_lost(now())] == [1, 0]
    assert [route.generation for route in selectors.routes()] == [1]
    services.prune(now() + timedelta(days=30))
    assert [route.generation for route in selectors.routes()] == [1], "while it runs its number stays"


@pytest.mark.parametrize("address", ["", "not a host", "fe80::1%eth0", "a" * 255, "node/../x"])
def test_a_node_without_a_usable_address_does_not_stop_the_others(place: Neighbourhood, address: str) -> None:
    place.environment(32_001)
    other = a_node("n2", place.site.pool, cards=0)
    Node.objects.filter(pk=place.node.pk).update(address=address)
    place.node = other
    good = place.environment(32_002)
    assert [route.uid for route in selectors.routes()] == [good.uid]


class TestPublication:
    def test_the_task_and_the_command_write_what_runs(
        self, environment: Workload, files_directory: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_routes_task()
        assert _gates(files_directory) == [f"{environment.uid}.0"]
        call_command("write_routes")
        assert capsys.readouterr().out == "up to date\n"

    def test_versions_only_rise_also_when_the_database_was_restored(self, db: None) -> None:
        first, second = services.next_version(), services.next_version()
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM ingress_publication")
        assert first < second < services.next_version()

    def test_many_writers_at_once_end_with_what_is_in_the_database(
        self, transactional_db: None, files_directory: Path
    ) -> None:
        site = a_site()
        street = Neighbourhood(site, a_node("n1", site.pool, cards=0))
        ports: Iterator[int] = iter(range(32_000, 33_000))
        lock = threading.Lock()

        def change_and_write() -> None:
            for _ in range(3):
                with lock:
                    port = next(ports)
                    street.environment(port)
                write_routes(now())

        assert _at_once(4, change_and_write) == 4
        assert len(_gates(files_directory)) == 12

    def test_a_writer_that_was_held_up_gives_way(
        self, environment: Workload, place: Neighbourhood, files_directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real: Callable[..., bool] = files.replace

        def held_up(directory: Path, wanted: Any, version: int) -> bool:
            monkeypatch.setattr(files, "replace", real)
            place.environment(32_002)
            assert write_routes(now()), "another writer, meanwhile"
            return real(directory, wanted, version)

        monkeypatch.setattr(files, "replace", held_up)
        assert not write_routes(now())
        assert len(_gates(files_directory)) == 2


def _gates(directory: Path) -> list[str]:
    return [gate["name"] for gate in json.loads(path_of(directory, "lds.json").read_text())["resources"]]


def _at_once(count: int, work: Callable[[], object], losing: type[Exception] | None = None) -> int:
    """How many of so many threads succeed. Any error but ``losing`` is the test's."""
    begin, outcomes = threading.Barrier(count), []

    def run() -> None:
        try:
            begin.wait()
            work()
            outcomes.append(True)
        except Exception as error:
            if losing is None or not isinstance(error, losing):
                raise
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(outcomes)
