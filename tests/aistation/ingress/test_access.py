"""Who gets into an environment through the real gateway, and what the container sees."""

import socket
from collections.abc import Callable

import pytest
from django.conf import settings

from aistation.audit.models import AuditEvent
from aistation.core.clock import now
from aistation.ingress.models import Pass
from aistation.tenancy.policy import Role
from aistation.tenancy.services import set_member
from aistation.workloads.lifecycle import Phase, Reason
from aistation.workloads.models import Workload
from aistation.workloads.services import request_stop
from tests.aistation.ingress.street import Browser, Container, Gateway, Neighbourhood, eventually
from tests.factories.world import a_user

pytestmark = pytest.mark.django_db(transaction=True)
Browsers = Callable[..., Browser]
Containers = Callable[[], Container]


@pytest.fixture
def container(containers: Containers) -> Container:
    return containers()


@pytest.fixture
def environment(gateway: Gateway, neighbourhood: Neighbourhood, container: Container) -> Workload:
    """Alice's, running."""
    made = neighbourhood.environment(container.port)
    gateway.publish()
    return made


@pytest.fixture
def alice(environment: Workload, neighbourhood: Neighbourhood, browser: Browsers) -> Browser:
    """Her browser, inside her environment."""
    inside = browser(neighbourhood.site.user)
    eventually(lambda: inside.enter(environment).status == 200)
    return inside


def test_the_owner_gets_in_by_way_of_the_portal_and_lands_where_she_wanted_to(
    environment: Workload, neighbourhood: Neighbourhood, browser: Browsers, container: Container
) -> None:
    owner, path = browser(neighbourhood.site.user), "/lab/tree/a%20b.ipynb?reset&x=%2F"
    eventually(lambda: owner.enter(environment, path).body == b"ok")
    assert container.seen[-1].path == "/lab/tree/a%20b.ipynb?reset&x=%2F"
    assert AuditEvent.objects.filter(action="environment.open")[0].target == environment.uid


def test_another_persons_browser_gets_404_the_same_as_for_a_missing_environment(
    environment: Workload, neighbourhood: Neighbourhood, browser: Browsers, gateway: Gateway, container: Container
) -> None:
    colleague = a_user("bob")
    set_member(group=neighbourhood.site.group, username="bob", role=Role.GROUP_ADMIN, now=now(), actor=None)
    for stranger in (browser(colleague), browser(a_user("carol")), browser(a_user("root", admin=True))):
        answer = stranger.enter(environment)
        assert answer.status == 404
        missing = stranger.navigate(f"localhost:{gateway.port}", "/environments/env-aaaaaaaaaaaa/open")
        assert (missing.status, len(missing.body)) == (404, len(answer.body))
    assert container.seen == []


def test_a_stranger_is_sent_to_sign_in_and_a_script_of_his_is_told_401(
    environment: Workload, browser: Browsers, gateway: Gateway, container: Container
) -> None:
    stranger = browser()
    answer = stranger.navigate(gateway.host(environment), "/lab")
    assert answer.status == 302
    assert answer.header("location") == f"{gateway.url}/environments/{environment.uid}/open?next=%2Flab"
    sign_in = stranger.navigate(f"localhost:{gateway.port}", f"/environments/{environment.uid}/open?next=%2Flab")
    assert (sign_in.header("location") or "").startswith("/login?next=%2Fenvironments%2F")
    assert stranger.request(gateway.host(environment), "/api/kernels", "POST", b"{}").status == 401
    assert container.seen == []


def test_the_container_gets_its_own_token_and_never_the_platforms_cookie(
    environment: Workload, alice: Browser, gateway: Gateway, container: Container
) -> None:
    host = gateway.host(environment)
    alice.request(host, "/api", authorization="Bearer mine")
    seen = container.seen[-1]
    assert seen.header("authorization") == f"token {environment.access_token}"
    assert seen.header("cookie") is None
    alice.cookies[host] |= {"_xsrf": "2|a|b", "theme": "dark", settings.SESSION_COOKIE_NAME: "planted"}
    alice.request(host, "/api")
    assert container.seen[-1].header("cookie") == "_xsrf=2|a|b; theme=dark"
    everything = str([seen.headers for seen in container.seen])
    assert alice.cookies[host]["aistation_pass"] not in everything
    assert "x-aistation" not in everything.lower()


def test_headers_that_only_the_gateway_may_set_are_stripped(
    environment: Workload, alice: Browser, gateway: Gateway, container: Container
) -> None:
    spoofed = {
        "x_aistation_gateway": "guess",
        "x_auth_user": "root",
        "x_auth_anything": "1",
        "x_forwarded_for": "6.6.6.6",
        "x_forwarded_proto": "https",
        "x_forwarded_host": "portal",
        "forwarded": "for=6.6.6.6",
        "x_real_ip": "6.6.6.6",
        "x_envoy_upstream_rq_timeout_ms": "1",
        "x_envoy_original_path": "/internal",
    }
    assert alice.request(gateway.host(environment), "/api", **spoofed).status == 200
    seen = container.seen[-1]
    forwarded_for = seen.header("x-forwarded-for") or ""
    assert "6.6.6.6" not in forwarded_for
    assert forwarded_for.count(",") == 0
    assert seen.header("x-forwarded-proto") == "http"
    for name in ("x-aistation-gateway", "x-auth-user", "x-auth-anything", "x-forwarded-host", "forwarded", "x-real-ip"):
        assert seen.header(name) is None, name
    assert not [name for name, _ in seen.headers if name.lower().startswith("x-envoy")]
    assert seen.header("host") == gateway.host(environment)


def test_the_cookie_of_one_environment_opens_no_other(
    environment: Workload, alice: Browser, gateway: Gateway, neighbourhood: Neighbourhood, containers: Containers
) -> None:
    other_container = containers()
    other = neighbourhood.environment(other_container.port)
    gateway.publish()
    host = gateway.host(other)
    alice.cookies[host] = dict(alice.cookies[gateway.host(environment)])
    assert alice.request(host).status == 401
    assert other_container.seen == []


def test_the_cookie_is_of_this_host_only_and_out_of_reach_of_scripts(
    environment: Workload, neighbourhood: Neighbourhood, browser: Browsers, gateway: Gateway
) -> None:
    person = browser(neighbourhood.site.user)
    to_portal = person.navigate(gateway.host(environment))
    portal_path = (to_portal.header("location") or "").removeprefix(gateway.url)
    to_environment = person.navigate(f"localhost:{gateway.port}", portal_path)
    entry = (to_environment.header("location") or "").removeprefix(gateway.origin(environment))
    entered = person.navigate(gateway.host(environment), entry)
    attributes = {part.strip() for part in (entered.header("set-cookie") or "").split(";")[1:]}
    assert attributes == {"HttpOnly", "Path=/", "SameSite=Lax"}
    assert entered.header("location") == "/"
    again = browser().navigate(gateway.host(environment), entry)
    assert again.header("set-cookie") is None, "a code is good once"
    secret = person.cookies[gateway.host(environment)]["aistation_pass"]
    assert secret.encode() not in bytes(Pass.objects.get().cookie_digest or b"")


def test_a_code_is_good_on_its_own_environments_host_only(
    environment: Workload, alice: Browser, neighbourhood: Neighbourhood, gateway: Gateway, containers: Containers
) -> None:
    other = neighbourhood.environment(containers().port)
    code = alice.navigate(f"localhost:{gateway.port}", f"/environments/{other.uid}/open").header("location") or ""
    entry = code.removeprefix(gateway.origin(other))
    assert alice.navigate(gateway.host(environment), entry).header("set-cookie") is None


@pytest.mark.parametrize("elsewhere", ["//evil.example/", "/\\evil.example", "https://evil.example/", "javascript:1"])
def test_the_way_in_leads_nowhere_else(  # S27
    environment: Workload, alice: Browser, gateway: Gateway, elsewhere: str
) -> None:
    portal = f"localhost:{gateway.port}"
    opened = alice.request(portal, f"/environments/{environment.uid}/open?next={elsewhere}")
    entry = (opened.header("location") or "").removeprefix(gateway.origin(environment))
    assert alice.navigate(gateway.host(environment), entry).header("location") == "/"


class TestOtherOrigins:
    """B068: what a page of a neighbour environment tries with its visitor's cookies."""

    def test_changing_something_needs_the_environments_own_origin(
        self, environment: Workload, alice: Browser, gateway: Gateway
    ) -> None:
        host = gateway.host(environment)
        assert alice.request(host, "/api", "POST", b"x", origin=gateway.origin(environment)).status == 200
        for origin in ({"origin": "http://env-neighbour.localhost"}, {"origin": gateway.url}, {"origin": "null"}, {}):
            assert alice.request(host, "/api", "POST", b"x", **origin).status == 403

    def test_reading_from_another_site_is_refused_and_going_there_is_not(
        self, environment: Workload, alice: Browser, gateway: Gateway
    ) -> None:
        host = gateway.host(environment)
        for site in ("same-site", "cross-site"):
            assert alice.request(host, sec_fetch_site=site, sec_fetch_mode="no-cors").status == 403
            framed = alice.navigate(host, sec_fetch_site=site, sec_fetch_dest="iframe")
            assert framed.status == 403
            assert alice.navigate(host, sec_fetch_site=site).status == 200
        assert alice.request(host, sec_fetch_site="same-origin", sec_fetch_mode="cors").status == 200

    def test_no_page_of_the_portal_is_served_on_an_environments_host(
        self, environment: Workload, alice: Browser, gateway: Gateway, container: Container
    ) -> None:
        host = gateway.host(environment)
        assert alice.request(host, "/login").body == b"ok"
        assert container.seen[-1].path == "/login"
        unknown = alice.navigate(f"env-aaaaaaaaaaaa.localhost:{gateway.port}", "/login")
        assert (unknown.header("location") or "").startswith(f"{gateway.url}/environments/env-aaaaaaaaaaaa/open?")
        assert alice.request(f"env-aaaaaaaaaaaa.localhost:{gateway.port}", "/login").status == 401


class TestInternalRoutes:
    def test_nobody_outside_can_ask_the_gateways_question(
        self, environment: Workload, alice: Browser, gateway: Gateway
    ) -> None:
        portal = f"localhost:{gateway.port}"
        for path in ("/internal/authorize/", "/internal", "/%69nternal/authorize/", "//internal/authorize/"):
            for host in (portal, "127.0.0.1", "whatever.example"):
                answer = alice.request(host, path, x_aistation_gateway="guess", cookie="aistation_pass=x")
                assert answer.status in (400, 404)
                assert answer.header("authorization") is None

    def test_the_environments_own_paths_do_not_exist_on_the_portal(self, alice: Browser, gateway: Gateway) -> None:
        assert alice.request(f"localhost:{gateway.port}", "/.aistation/enter?code=x").status == 404


class TestStopped:
    """B023: a stopped environment stays stopped, whatever its tabs ask for."""

    def test_a_stopped_environment_answers_stably_and_starts_nothing(
        self, environment: Workload, alice: Browser, gateway: Gateway, neighbourhood: Neighbourhood
    ) -> None:
        host, origin = gateway.host(environment), gateway.origin(environment)
        request_stop(workload_id=environment.pk, reason=Reason.USER_STOPPED, now=now(), actor=neighbourhood.site.actor)
        neighbourhood.report(environment, Phase.EXITED)
        gateway.publish()
        eventually(lambda: alice.request(host, "/api/kernels").status == 404)
        polled = [alice.request(host, "/api/kernels", method, origin=origin) for method in ("GET", "POST") * 5]
        assert {answer.status for answer in polled} == {404}
        assert b'"environment_not_running"' in polled[0].body
        link = f"{gateway.url}/environments/{environment.uid}".encode()
        assert alice.navigate(host, "/lab").status == 404
        eventually(lambda: link in alice.navigate(host, "/lab").body)
        upgrade = alice.request(host, "/ws", upgrade="websocket", connection="Upgrade", sec_websocket_version="13")
        assert upgrade.status < 500
        environment.refresh_from_db()
        assert (environment.state, environment.attempt) == ("stopped", 1)

    def test_while_the_route_is_still_there_the_question_is_answered_with_stopped(
        self, environment: Workload, alice: Browser, gateway: Gateway, neighbourhood: Neighbourhood
    ) -> None:
        request_stop(workload_id=environment.pk, reason=Reason.USER_STOPPED, now=now(), actor=neighbourhood.site.actor)
        eventually(lambda: alice.request(gateway.host(environment)).status == 404, within_s=4)

    def test_opening_one_that_does_not_run_leads_to_its_page(
        self, alice: Browser, environment: Workload, gateway: Gateway, neighbourhood: Neighbourhood
    ) -> None:
        request_stop(workload_id=environment.pk, reason=Reason.USER_STOPPED, now=now(), actor=neighbourhood.site.actor)
        answer = alice.navigate(f"localhost:{gateway.port}", f"/environments/{environment.uid}/open")
        assert answer.header("location") == f"/environments/{environment.uid}"

    def test_one_whose_container_does_not_listen_yet_shows_a_page_that_tries_again(
        self, gateway: Gateway, neighbourhood: Neighbourhood, browser: Browsers
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            starting = neighbourhood.environment(nobody.getsockname()[1])
        gateway.publish()
        host, owner = gateway.host(starting), browser(neighbourhood.site.user)
        eventually(lambda: owner.enter(starting).status == 503)
        assert b"does not answer yet" in owner.navigate(host).body
        asked = owner.request(host, "/api", accept="application/json")
        assert (asked.status, b"<html" in asked.body) == (503, False)
