"""The table of who may do what."""

import pytest

from aistation.tenancy.policy import TABLE, Action, Actor, Role, Rule, Scope, allows

GROUP = 1
OTHER = 2
OWNER = 10


def actor(role: Role | None = None, *, user: int = 20, admin: bool = False, scopes: set[Scope] | None = None) -> Actor:
    roles = {} if role is None else {GROUP: role}
    return Actor(user, "someone", admin, roles, None if scopes is None else frozenset(scopes))


EXPECTED: dict[Rule, set[Role | None]] = {
    Rule.ANYONE: {None, Role.VIEWER, Role.MEMBER, Role.GROUP_ADMIN},
    Rule.VIEWER: {Role.VIEWER, Role.MEMBER, Role.GROUP_ADMIN},
    Rule.MEMBER: {Role.MEMBER, Role.GROUP_ADMIN},
    Rule.GROUP_ADMIN: {Role.GROUP_ADMIN},
    Rule.OWNER: set(),
    Rule.OWNER_OR_GROUP_ADMIN: {Role.GROUP_ADMIN},
    Rule.PLATFORM: set(),
}


def test_every_action_has_a_rule_and_every_rule_an_expectation() -> None:
    assert set(TABLE) == set(Action)
    assert set(EXPECTED) == set(Rule)


@pytest.mark.parametrize("action", list(Action))
def test_roles_in_the_group_decide_for_things_of_others(action: Action) -> None:
    rule, _ = TABLE[action]
    for role in (None, *Role):
        assert allows(actor(role), action, group_id=GROUP, owner_id=OWNER) == (role in EXPECTED[rule]), role


@pytest.mark.parametrize("action", list(Action))
def test_a_role_in_another_group_is_worth_nothing(action: Action) -> None:
    rule, _ = TABLE[action]
    expected = rule is Rule.ANYONE
    assert allows(actor(Role.GROUP_ADMIN), action, group_id=OTHER, owner_id=OWNER) == expected


@pytest.mark.parametrize("action", list(Action))
def test_a_platform_admin_may_do_all_but_enter_another_persons_environment(action: Action) -> None:
    expected = action is not Action.OPEN_ENVIRONMENT
    assert allows(actor(admin=True), action, group_id=GROUP, owner_id=OWNER) == expected


@pytest.mark.parametrize("action", [Action.CONTROL_WORKLOAD, Action.OPEN_ENVIRONMENT, Action.VIEW_LOGS])
def test_an_owner_keeps_control_only_as_a_member(action: Action) -> None:
    assert allows(actor(Role.MEMBER, user=OWNER), action, group_id=GROUP, owner_id=OWNER)
    assert not allows(actor(Role.VIEWER, user=OWNER), action, group_id=GROUP, owner_id=OWNER)
    assert not allows(actor(None, user=OWNER), action, group_id=GROUP, owner_id=OWNER)


@pytest.mark.parametrize("action", list(Action))
def test_a_token_does_only_what_its_scopes_cover_even_for_admins(action: Action) -> None:
    _, needed = TABLE[action]
    for scope in Scope:
        everything = actor(admin=True, user=OWNER, scopes={scope})
        assert allows(everything, action, group_id=GROUP, owner_id=OWNER) == (scope is needed)
