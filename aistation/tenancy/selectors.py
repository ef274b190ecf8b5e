"""Reads of people and tenants. ``access_*`` is the only way for an edge to get hold of a row."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from django.db.models import Count, QuerySet

from aistation.core.errors import ForbiddenError, NotFoundError, UnauthenticatedError
from aistation.tenancy.models import ApiToken, Group, Membership, User
from aistation.tenancy.policy import Action, Actor, Role, Scope, allows


def actor_of(user_id: int, *, scopes: frozenset[Scope] | None = None, via: str = "session") -> Actor | None:
    """The policy's view of an active person with the roles that hold now; None when there is no such person."""
    actor = actors_of([user_id]).get(user_id)
    return None if actor is None else replace(actor, scopes=scopes, via=via)


def actors_of(user_ids: Collection[int]) -> dict[int, Actor]:
    """Those of the people who are active, each with the roles that hold now. One query."""
    rows = User.objects.filter(pk__in=user_ids, is_active=True).values_list(
        "pk",
        "username",
        "is_platform_admin",
        "memberships__group_id",
        "memberships__role",
        "memberships__group__archived_at",
    )
    names: dict[int, tuple[str, bool]] = {}
    roles: dict[int, dict[int, Role]] = {}
    for user_id, username, is_platform_admin, group_id, role, archived_at in rows:
        names[user_id] = (username, is_platform_admin)
        held = roles.setdefault(user_id, {})
        if role and archived_at is None:  # a left join: no group, no role
            held[group_id] = Role(role)
    return {user_id: Actor(user_id, *name, roles[user_id]) for user_id, name in names.items()}


def id_of_user(username: str) -> int | None:
    """For the installation itself, which has no person to ask the policy about."""
    return User.objects.filter(username=username).values_list("pk", flat=True).first()


def actor_of_token(secret: str, now: datetime) -> tuple[Actor, ApiToken]:
    """Who presents this token. Raises UnauthenticatedError when it is unknown, expired or revoked."""
    digest = sha256(secret.encode("utf-8", "surrogatepass")).digest()
    found = ApiToken.objects.filter(digest=digest, revoked_at=None, expires_at__gt=now, user__is_active=True)
    rows = list(
        found.values_list(
            "pk",
            "user_id",
            "name",
            "scopes",
            "last_used_at",
            "user__username",
            "user__is_platform_admin",
            "user__memberships__group_id",
            "user__memberships__role",
            "user__memberships__group__archived_at",
        )
    )  # one query: this is on the way of every request
    if not rows:
        raise UnauthenticatedError("This token is unknown, expired or revoked. Make a new one on your profile page.")
    pk, user_id, name, scopes, last_used_at, username, is_platform_admin, *_ = rows[0]
    actor = Actor(
        user_id,
        username,
        is_platform_admin,
        {group_id: Role(role) for *_, group_id, role, archived_at in rows if role and archived_at is None},
        None if scopes is None else frozenset(Scope(scope) for scope in scopes),
        f"token:{name}",
    )
    return actor, ApiToken(pk=pk, user_id=user_id, name=name, scopes=scopes, last_used_at=last_used_at)


def require(actor: Actor, action: Action, *, group_id: int | None = None, owner_id: int | None = None) -> None:
    """Raises ForbiddenError unless the policy allows it."""
    if not allows(actor, action, group_id=group_id, owner_id=owner_id):
        raise ForbiddenError(f"Your role or token does not allow this ({action.value}).")


def visible_group_ids(actor: Actor) -> list[int] | None:
    """Groups whose things the person may see; None: all of them."""
    if actor.scopes is not None and Scope.READ not in actor.scopes:
        return []
    return None if actor.is_platform_admin else sorted(actor.roles)


def list_groups(actor: Actor) -> QuerySet[Group]:
    groups = Group.objects.filter(archived_at=None).order_by("name")
    visible = visible_group_ids(actor)
    return groups if visible is None else groups.filter(pk__in=visible)


def access_group(actor: Actor, name: str, action: Action = Action.VIEW_GROUP) -> Group:
    """The group, when the person may do ``action`` to it. One that they may not see is missing."""
    group = Group.objects.filter(name=name, archived_at=None).first()
    if group is None or not allows(actor, Action.VIEW_GROUP, group_id=group.pk):
        raise NotFoundError
    require(actor, action, group_id=group.pk)
    return group


def list_members(group_id: int) -> QuerySet[Membership]:
    return Membership.objects.filter(group_id=group_id).select_related("user").order_by("user__username")


def count_members() -> Mapping[str, int]:
    """How many people each group has, by its name; groups without any too."""
    groups = Group.objects.filter(archived_at=None).values_list("name")
    return dict(groups.annotate(Count("memberships")).order_by())


def list_users(actor: Actor) -> QuerySet[User]:
    """Everybody, for platform admins."""
    require(actor, Action.MANAGE_USERS)
    return User.objects.order_by("username")


def access_user(actor: Actor, username: str) -> User:
    require(actor, Action.MANAGE_USERS)
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFoundError
    return user


def access_member(actor: Actor, group_name: str, username: str, action: Action) -> tuple[Group, User]:
    """A group and a member of it."""
    group = access_group(actor, group_name, action)
    user = User.objects.filter(username=username, memberships__group=group).first()
    if user is None:
        raise NotFoundError
    return group, user


def get_user(user_id: int) -> User:
    return User.objects.get(pk=user_id)


def list_tokens(user_id: int) -> QuerySet[ApiToken]:
    """A person's own tokens that are not revoked, newest first."""
    return ApiToken.objects.filter(user_id=user_id, revoked_at=None).order_by("-id")


def groups_of(user_id: int) -> Mapping[str, int]:
    """Group name to role number."""
    rows = Membership.objects.filter(user_id=user_id, group__archived_at=None).order_by("group__name")
    return dict(rows.values_list("group__name", "role"))
