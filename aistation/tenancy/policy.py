"""Who may do what. Pure: the one table for REST, pages, sockets and the gateway.

An `Actor` is a person with the roles that hold now. `allows` answers for one action on a thing that belongs to
a group and perhaps an owner. What a person may not see answers as missing; that is the caller's part, by
asking for the ``VIEW_`` action first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final


class Role(IntEnum):
    """Role in a group; a higher one includes the lower."""

    VIEWER = 1
    MEMBER = 2
    GROUP_ADMIN = 3


ROLE_NAMES: Final[Mapping[Role, str]] = {Role.VIEWER: "viewer", Role.MEMBER: "member", Role.GROUP_ADMIN: "group_admin"}
ROLES_BY_NAME: Final[Mapping[str, Role]] = {name: role for role, name in ROLE_NAMES.items()}


class Scope(StrEnum):
    """What a token may be used for. A token without scopes may do all that its owner may."""

    READ = "read"
    WRITE = "write"  # submit and control workloads, own folders
    ADMIN = "admin"  # groups, quotas, pools, nodes


class Action(StrEnum):
    # things of a group
    VIEW_GROUP = "view_group"
    VIEW_WORKLOAD = "view_workload"
    VIEW_LOGS = "view_logs"
    SUBMIT_WORKLOAD = "submit_workload"
    CONTROL_WORKLOAD = "control_workload"  # cancel, stop, start, change
    OPEN_ENVIRONMENT = "open_environment"
    VIEW_QUOTAS = "view_quotas"
    SET_USER_QUOTAS = "set_user_quotas"
    SET_GROUP_QUOTAS = "set_group_quotas"
    MANAGE_MEMBERS = "manage_members"
    VIEW_FOLDER = "view_folder"
    CREATE_FOLDER = "create_folder"
    # things of the platform
    VIEW_CLUSTER = "view_cluster"  # pools, nodes, cards, free capacity; not who uses them
    VIEW_CATALOG = "view_catalog"
    CREATE_OWN_FOLDER = "create_own_folder"
    MANAGE_OWN_TOKENS = "manage_own_tokens"
    MANAGE_USERS = "manage_users"
    MANAGE_GROUPS = "manage_groups"
    MANAGE_POOLS = "manage_pools"
    MANAGE_NODES = "manage_nodes"
    MANAGE_CATALOG = "manage_catalog"
    VIEW_AUDIT = "view_audit"
    VIEW_METRICS = "view_metrics"


class Rule(StrEnum):
    """How an action is decided."""

    ANYONE = "anyone"  # who is signed in
    VIEWER = "viewer"  # any role in the group
    MEMBER = "member"
    GROUP_ADMIN = "group_admin"
    OWNER = "owner"  # the owner alone, while still a member
    OWNER_OR_GROUP_ADMIN = "owner_or_group_admin"
    PLATFORM = "platform"


TABLE: Final[Mapping[Action, tuple[Rule, Scope]]] = {
    Action.VIEW_GROUP: (Rule.VIEWER, Scope.READ),
    Action.VIEW_WORKLOAD: (Rule.VIEWER, Scope.READ),
    Action.VIEW_LOGS: (Rule.OWNER_OR_GROUP_ADMIN, Scope.READ),
    Action.SUBMIT_WORKLOAD: (Rule.MEMBER, Scope.WRITE),
    Action.CONTROL_WORKLOAD: (Rule.OWNER_OR_GROUP_ADMIN, Scope.WRITE),
    Action.OPEN_ENVIRONMENT: (Rule.OWNER, Scope.WRITE),
    Action.VIEW_QUOTAS: (Rule.VIEWER, Scope.READ),
    Action.SET_USER_QUOTAS: (Rule.GROUP_ADMIN, Scope.ADMIN),
    Action.SET_GROUP_QUOTAS: (Rule.PLATFORM, Scope.ADMIN),
    Action.MANAGE_MEMBERS: (Rule.GROUP_ADMIN, Scope.ADMIN),
    Action.VIEW_FOLDER: (Rule.VIEWER, Scope.READ),
    Action.CREATE_FOLDER: (Rule.MEMBER, Scope.WRITE),
    Action.VIEW_CLUSTER: (Rule.ANYONE, Scope.READ),
    Action.VIEW_CATALOG: (Rule.ANYONE, Scope.READ),
    Action.CREATE_OWN_FOLDER: (Rule.ANYONE, Scope.WRITE),
    Action.MANAGE_OWN_TOKENS: (Rule.ANYONE, Scope.ADMIN),
    Action.MANAGE_USERS: (Rule.PLATFORM, Scope.ADMIN),
    Action.MANAGE_GROUPS: (Rule.PLATFORM, Scope.ADMIN),
    Action.MANAGE_POOLS: (Rule.PLATFORM, Scope.ADMIN),
    Action.MANAGE_NODES: (Rule.PLATFORM, Scope.ADMIN),
    Action.MANAGE_CATALOG: (Rule.PLATFORM, Scope.ADMIN),
    Action.VIEW_AUDIT: (Rule.PLATFORM, Scope.ADMIN),
    Action.VIEW_METRICS: (Rule.PLATFORM, Scope.READ),
}


@dataclass(frozen=True, slots=True)
class Actor:
    """A signed-in person as the policy sees them. ``scopes`` None: everything the person may do."""

    user_id: int
    username: str
    is_platform_admin: bool = False
    roles: Mapping[int, Role] = field(default_factory=dict)  # by group id
    scopes: frozenset[Scope] | None = None
    via: str = "session"

    def role_in(self, group_id: int | None) -> Role | None:
        return None if group_id is None else self.roles.get(group_id)


def allows(actor: Actor, action: Action, *, group_id: int | None = None, owner_id: int | None = None) -> bool:
    """May ``actor`` do ``action`` to something of this group and owner?

    A platform admin may do all but open another person's environment.
    """
    rule, scope = TABLE[action]
    if actor.scopes is not None and scope not in actor.scopes:
        return False
    is_owner = owner_id is not None and owner_id == actor.user_id
    if rule is Rule.OWNER:
        return is_owner and (actor.is_platform_admin or _at_least(actor, group_id, Role.MEMBER))
    if actor.is_platform_admin or rule is Rule.ANYONE:
        return True
    if rule is Rule.OWNER_OR_GROUP_ADMIN:
        return _at_least(actor, group_id, Role.GROUP_ADMIN) or (is_owner and _at_least(actor, group_id, Role.MEMBER))
    needed = {Rule.VIEWER: Role.VIEWER, Rule.MEMBER: Role.MEMBER, Rule.GROUP_ADMIN: Role.GROUP_ADMIN}.get(rule)
    return needed is not None and _at_least(actor, group_id, needed)


def _at_least(actor: Actor, group_id: int | None, role: Role) -> bool:
    held = actor.role_in(group_id)
    return held is not None and held >= role
