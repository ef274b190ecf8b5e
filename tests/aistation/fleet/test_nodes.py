"""Joining, duty and removal of nodes."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from aistation.audit.models import AuditEvent
from aistation.core.errors import ConflictError, InvalidInputError, NotFoundError, UnauthenticatedError
from aistation.fleet import selectors, services
from aistation.fleet.models import Duty, JoinToken, Node
from aistation.fleet.services import EnrolledNode
from tests.aistation.fleet.builders import T0, a_node, a_platform_admin, a_pool, beat, card

ADMIN = a_platform_admin()


def a_join_token() -> str:
    pool = a_pool()
    return services.create_join_token(pool=pool, expires_in_s=3600, now=T0, actor=ADMIN).secret


def enrol(secret: str, name: str = "node-1", *, seconds: int = 1) -> EnrolledNode:
    now = T0 + timedelta(seconds=seconds)
    return services.enrol_node(join_token=secret, name=name, fingerprint="print", agent_version="1.0", now=now)


@pytest.mark.django_db
class TestJoining:
    def test_a_join_token_makes_a_node_of_its_pool_with_a_credential_of_its_own(self) -> None:
        secret = a_join_token()
        enrolled = enrol(secret)
        assert (enrolled.node.pool.name, enrolled.node.state) == ("default", "lost")
        identity = selectors.node_of_token(services.digest_of(enrolled.secret))
        assert identity == selectors.NodeIdentity(enrolled.node.pk, "node-1", "print")
        assert selectors.node_of_token(services.digest_of(secret)) is None

    def test_secrets_are_stored_as_digests_and_told_to_nobody_else(self) -> None:
        secret = a_join_token()
        enrolled = enrol(secret)
        told = str(list(AuditEvent.objects.values())) + str(
            list(JoinToken.objects.values()) + list(Node.objects.values())
        )
        assert secret not in told
        assert enrolled.secret not in told

    def test_a_join_token_is_good_once(self) -> None:
        secret = a_join_token()
        enrol(secret)
        with pytest.raises(UnauthenticatedError):
            enrol(secret, "node-2")

    def test_a_join_token_expires_and_can_be_revoked(self) -> None:
        secret = a_join_token()
        with pytest.raises(UnauthenticatedError):
            enrol(secret, seconds=3600)
        services.revoke_join_token(token_id=JoinToken.objects.get().pk, now=T0, actor=ADMIN)
        with pytest.raises(UnauthenticatedError):
            enrol(secret)
        with pytest.raises(NotFoundError):
            services.revoke_join_token(token_id=JoinToken.objects.get().pk, now=T0, actor=ADMIN)

    @pytest.mark.parametrize("secret", ["", "aisj_wrong", "\x00", "\ud800", "x" * 100_000])
    def test_any_other_text_is_refused_as_unknown(self, secret: str) -> None:
        with pytest.raises(UnauthenticatedError):
            enrol(secret)

    @pytest.mark.parametrize("name", ["Node-1", "-a", "a..b", "n\u00f6de", "no\u0308de", "api", "a" * 64, "a b", ""])
    def test_names_that_could_be_mistaken_are_refused_and_the_token_stays_good(self, name: str) -> None:
        """B052"""
        secret = a_join_token()
        with pytest.raises(InvalidInputError) as refused:
            enrol(secret, name)
        assert refused.value.errors[0].field == "node_name"
        assert enrol(secret).node.name == "node-1"

    def test_a_name_that_is_taken_is_refused_and_the_token_stays_good(self) -> None:
        secret = a_join_token()
        a_node(a_pool("other"), "node-1")
        with pytest.raises(ConflictError) as refused:
            enrol(secret)
        assert "remove that node first" in refused.value.message
        assert enrol(secret, "node-2").node.name == "node-2"

    @pytest.mark.parametrize("seconds", [0, -1, 31 * 24 * 3600])
    def test_a_join_token_has_an_end(self, seconds: int) -> None:
        with pytest.raises(InvalidInputError):
            services.create_join_token(pool=a_pool(), expires_in_s=seconds, now=T0, actor=ADMIN)


@pytest.mark.django_db(transaction=True)
def test_of_eight_machines_with_one_join_token_one_joins() -> None:
    """S30"""
    secret = a_join_token()

    def take(index: int) -> bool:
        try:
            enrol(secret, f"node-{index}")
        except UnauthenticatedError:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as threads:
        joined = list(threads.map(take, range(8)))
    assert sum(joined) == 1
    assert Node.objects.count() == 1


@pytest.mark.django_db
class TestDuty:
    def test_cordon_and_back_are_seen_and_audited_once(self, django_capture_on_commit_callbacks: Any) -> None:
        node = a_node(a_pool())
        for _ in range(2):
            services.set_duty(node_id=node.pk, duty=Duty.CORDONED, now=T0, actor=ADMIN)
        assert Node.objects.get().state == "cordoned"
        with django_capture_on_commit_callbacks() as callbacks:
            services.set_duty(node_id=node.pk, duty=Duty.IN_SERVICE, now=T0, actor=ADMIN)
        assert len(callbacks) == 2
        assert list(AuditEvent.objects.order_by("pk").values_list("before", "after", "actor")) == [
            ({"duty": "in_service"}, {"duty": "cordoned"}, "root"),
            ({"duty": "cordoned"}, {"duty": "in_service"}, "root"),
        ]

    def test_heartbeats_do_not_change_the_duty(self) -> None:
        node = a_node(a_pool(), duty=Duty.DRAINING)
        beat(node)
        assert Node.objects.get().state == "draining"


@pytest.mark.django_db
class TestRemoval:
    def test_a_removed_node_is_out_of_sight_without_credential_and_its_name_is_free(self) -> None:
        node = a_node(a_pool(), token="secret", devices=1)
        services.remove_node(node_id=node.pk, now=T0, actor=ADMIN)
        assert selectors.node_of_token(services.digest_of("secret")) is None
        assert selectors.desired_version(node.pk) is None
        assert not selectors.list_nodes(ADMIN).exists()
        assert not selectors.list_devices(ADMIN).exists()
        assert selectors.scheduler_nodes() == ()
        again = a_node(node.pool, "node-1", token_digest=b"other")
        beat(again, card("GPU-node-1-0"))
        assert again.devices.get().usable

    @pytest.mark.parametrize("held", [{"cpu_taken_milli": 1}, {"memory_taken_mib": 1}])
    def test_a_node_with_work_booked_on_it_stays(self, held: dict[str, Any]) -> None:
        node = a_node(a_pool(), **held)
        with pytest.raises(ConflictError):
            services.remove_node(node_id=node.pk, now=T0, actor=ADMIN)

    def test_nothing_can_be_booked_on_a_removed_node(self) -> None:
        node = a_node(a_pool())
        services.remove_node(node_id=node.pk, now=T0, actor=ADMIN)
        with pytest.raises(Exception, match="gone"):
            services.take_node(node.pk, 1, 1)
