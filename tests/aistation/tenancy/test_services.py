"""People, groups and tokens: one write, one audit event."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client

from aistation.audit.models import AuditEvent
from aistation.core.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RateLimitedError,
    UnauthenticatedError,
)
from aistation.tenancy import selectors, services
from aistation.tenancy.models import ApiToken, LoginFailure, User
from aistation.tenancy.policy import Actor, Role, Scope
from tests.factories.world import PASSWORD, T0, a_group, a_user

ROOT = Actor(0, "root", is_platform_admin=True)
DAY_S = 86_400


@pytest.fixture
def alice(db: None) -> User:
    return a_user("alice")


def a_token(user: User, **changes: object) -> services.NewToken:
    values: dict[str, object] = {"name": "ci", "now": T0, "expires_in_s": DAY_S, "longest_s": 90 * DAY_S, "actor": None}
    return services.create_token(user_id=user.pk, **{**values, **changes})  # type: ignore[arg-type]


class TestTokens:
    def test_a_token_is_256_random_bits_and_only_its_digest_is_kept(self, alice: User) -> None:
        """S22."""
        first, second = a_token(alice), a_token(alice)
        assert first.secret != second.secret
        assert len(first.secret) >= len(services.TOKEN_PREFIX) + 43
        assert first.secret not in str(list(ApiToken.objects.values())) + str(list(AuditEvent.objects.values()))

    def test_it_names_its_owner_until_it_expires(self, alice: User) -> None:
        made = a_token(alice, scopes={Scope.READ})
        actor, token = selectors.actor_of_token(made.secret, T0)
        assert (actor.username, actor.scopes, actor.via, token.pk) == (
            "alice", frozenset({Scope.READ}), "token:ci", made.token.pk,
        )  # fmt: skip
        with pytest.raises(UnauthenticatedError):
            selectors.actor_of_token(made.secret, T0 + timedelta(days=1))

    @pytest.mark.parametrize("secret", ["", "ais_", "x" * 10_000, "\ud800", "\x00"])
    def test_any_other_text_is_nobody(self, alice: User, secret: str) -> None:
        with pytest.raises(UnauthenticatedError):
            selectors.actor_of_token(secret, T0)

    def test_a_revoked_one_is_dead_at_once_and_only_its_owner_revokes_it(self, alice: User) -> None:
        made = a_token(alice)
        with pytest.raises(NotFoundError):
            services.revoke_token(user_id=a_user("bob").pk, token_id=made.token.pk, now=T0, actor=ROOT)
        services.revoke_token(user_id=alice.pk, token_id=made.token.pk, now=T0, actor=ROOT)
        with pytest.raises(UnauthenticatedError):
            selectors.actor_of_token(made.secret, T0)

    @pytest.mark.parametrize("expires_in_s", [0, -1, 90 * DAY_S + 1])
    def test_its_lifetime_is_bounded(self, alice: User, expires_in_s: int) -> None:
        with pytest.raises(InvalidInputError):
            a_token(alice, expires_in_s=expires_in_s)

    def test_last_use_is_kept_to_the_minute(self, alice: User) -> None:
        token = a_token(alice).token
        services.touch_token(token, T0)
        token.refresh_from_db()
        services.touch_token(token, T0 + timedelta(seconds=59))
        assert ApiToken.objects.get(pk=token.pk).last_used_at == T0
        services.touch_token(token, T0 + timedelta(seconds=61))
        assert ApiToken.objects.get(pk=token.pk).last_used_at == T0 + timedelta(seconds=61)


class TestPeople:
    def test_names_differ_by_more_than_case(self, alice: User) -> None:
        for name in ("Alice", "ALICE", "alice ", " alice", "al/ice", ""):
            with pytest.raises(InvalidInputError):
                a_user(name)
        with pytest.raises(ConflictError):
            a_user("alice")

    def test_a_password_must_be_worth_it(self, db: None) -> None:
        for password in ("short", "password1234", "zoezoezoe1"):
            with pytest.raises(InvalidInputError):
                services.create_user(username="zoezoezoe", password=password, now=T0, actor=None)

    def test_deactivation_ends_tokens_and_roles_at_once(self, alice: User) -> None:
        """S21."""
        a_group("vision", alice=Role.MEMBER)
        made = a_token(alice)
        a_user("root", admin=True)
        services.change_user(user_id=alice.pk, is_active=False, now=T0, actor=ROOT)
        assert selectors.actor_of(alice.pk) is None
        with pytest.raises(UnauthenticatedError):
            selectors.actor_of_token(made.secret, T0)
        services.change_user(user_id=alice.pk, is_active=True, now=T0, actor=ROOT)
        with pytest.raises(UnauthenticatedError):
            selectors.actor_of_token(made.secret, T0)

    def test_a_new_password_ends_the_sessions_of_the_old_one(self, alice: User) -> None:
        """S21."""
        a_user("root", admin=True)
        browser = Client()
        browser.force_login(alice)
        assert browser.get("/api/v1/me").status_code == 200
        services.change_user(user_id=alice.pk, password="a brand new long one", now=T0, actor=ROOT)
        assert Session.objects.exists()
        assert browser.get("/api/v1/me").status_code == 401

    def test_the_last_platform_admin_stays_one(self, db: None) -> None:
        """B071."""
        root = a_user("root", admin=True)
        with pytest.raises(ConflictError):
            services.change_user(user_id=root.pk, is_active=False, now=T0, actor=ROOT)
        with pytest.raises(ConflictError):
            services.change_user(user_id=root.pk, is_platform_admin=False, now=T0, actor=ROOT)
        a_user("second", admin=True)
        services.change_user(user_id=root.pk, is_platform_admin=False, now=T0, actor=ROOT)

    @pytest.mark.django_db(transaction=True)
    def test_two_admins_cannot_demote_each_other_at_once(self) -> None:
        """B071: one of them stays."""
        admins = [a_user(name, admin=True) for name in ("one", "two")]

        def demote(user: User) -> bool:
            try:
                services.change_user(user_id=user.pk, is_platform_admin=False, now=T0, actor=ROOT)
            except ConflictError:
                return False
            finally:
                connection.close()
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(demote, admins)) == [False, True]
        assert User.objects.filter(is_platform_admin=True).count() == 1


class TestMembership:
    def test_setting_a_role_twice_changes_and_audits_once(self, alice: User) -> None:
        group = a_group("vision")
        for _ in range(2):
            services.set_member(group=group, username="alice", role=Role.MEMBER, now=T0, actor=ROOT)
        services.set_member(group=group, username="alice", role=Role.VIEWER, now=T0, actor=ROOT)
        events = AuditEvent.objects.filter(action="member.set").order_by("id").values_list("before", "after")
        assert list(events) == [(None, {"role": "member"}), ({"role": "member"}, {"role": "viewer"})]

    def test_nobody_unknown_or_inactive_becomes_a_member(self, alice: User) -> None:
        group = a_group("vision")
        User.objects.filter(pk=alice.pk).update(is_active=False)
        for name in ("alice", "nobody"):
            with pytest.raises(InvalidInputError):
                services.set_member(group=group, username=name, role=Role.MEMBER, now=T0, actor=ROOT)

    def test_leaving_ends_the_role_in_that_group_only(self, alice: User) -> None:
        vision, speech = a_group("vision", alice=Role.MEMBER), a_group("speech", alice=Role.VIEWER)
        services.remove_member(group=vision, user=alice, now=T0, actor=ROOT)
        actor = selectors.actor_of(alice.pk)
        assert actor is not None
        assert actor.roles == {speech.pk: Role.VIEWER}


class TestSignIn:
    def test_the_right_password_opens_and_every_other_thing_looks_the_same(self, alice: User) -> None:
        assert services.check_password(username="alice", password=PASSWORD, address=None, now=T0) == alice
        messages = set()
        for username, password in [("alice", "wrong"), ("nobody", PASSWORD), ("", ""), ("x" * 300, "\x00")]:
            with pytest.raises(UnauthenticatedError) as refused:
                services.check_password(username=username, password=password, address="::1", now=T0)
            messages.add(str(refused.value))
        assert len(messages) == 1

    def test_ten_failures_a_minute_and_account_make_it_wait(self, alice: User) -> None:
        """S30: the right password waits too; others do not."""
        a_user("bob")
        for _ in range(10):
            with pytest.raises(UnauthenticatedError):
                services.check_password(username="alice", password="wrong", address=None, now=T0)
        with pytest.raises(RateLimitedError) as refused:
            services.check_password(username="alice", password=PASSWORD, address=None, now=T0)
        assert refused.value.retry_after_s == 60
        services.check_password(username="bob", password=PASSWORD, address=None, now=T0)
        later = T0 + timedelta(seconds=61)
        services.check_password(username="alice", password=PASSWORD, address=None, now=later)
        services.prune_login_failures(T0 + timedelta(hours=2))
        assert not LoginFailure.objects.exists()
