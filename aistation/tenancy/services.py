"""Writes of people and tenants: one function, one transaction, one audit event."""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q

from aistation.audit.services import record
from aistation.core.errors import (
    ConflictError,
    FieldError,
    InvalidInputError,
    NotFoundError,
    RateLimitedError,
    UnauthenticatedError,
)
from aistation.core.validation import name_error
from aistation.tenancy.models import ApiToken, Group, LoginFailure, Membership, User
from aistation.tenancy.policy import ROLE_NAMES, Actor, Role, Scope

TOKEN_PREFIX: Final = "ais_"  # noqa: S105 - not a secret: it lets scanners recognise one
FAILURES_ALLOWED: Final = 10  # a minute and account
FAILURE_WINDOW: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class NewToken:
    """A fresh token. ``secret`` is shown once and kept nowhere."""

    token: ApiToken
    secret: str


@transaction.atomic
def create_user(  # noqa: PLR0913 - the columns of a person
    *,
    username: str,
    password: str | None,
    now: datetime,
    actor: Actor | None,
    display_name: str = "",
    email: str = "",
    is_platform_admin: bool = False,
) -> User:
    """Create a person. ``password`` None: cannot sign in with one. Raises InvalidInputError, ConflictError."""
    errors = [error for error in (name_error("username", username),) if error]
    user = User(
        username=username,
        display_name=display_name,
        email=email,
        is_platform_admin=is_platform_admin,
        created_at=now,
    )
    if password is not None:
        errors += _password_errors(password, user)
    if errors:
        raise InvalidInputError("The user cannot be created.", errors=errors)
    if password is None:
        user.set_unusable_password()
    else:
        user.set_password(password)
    _insert(user, f"The user name {username} is taken.", "username")
    record(actor, now, "user.create", "user", username, after={"is_platform_admin": is_platform_admin})
    return user


@transaction.atomic
def change_user(
    *,
    user_id: int,
    now: datetime,
    actor: Actor,
    is_active: bool | None = None,
    is_platform_admin: bool | None = None,
    password: str | None = None,
) -> User:
    """Change what is given. Deactivation or a new password ends all sessions; deactivation also all tokens.

    The last active platform admin stays one (ConflictError).
    """
    involved = User.objects.filter(Q(pk=user_id) | Q(is_active=True, is_platform_admin=True))
    locked = {row.pk: row for row in involved.select_for_update(no_key=True).order_by("pk")}
    user = locked.pop(user_id)
    before = {"is_active": user.is_active, "is_platform_admin": user.is_platform_admin}
    if password is not None:
        errors = _password_errors(password, user)
        if errors:
            raise InvalidInputError("The password is too weak.", errors=errors)
        user.set_password(password)
    user.is_active = user.is_active if is_active is None else is_active
    user.is_platform_admin = user.is_platform_admin if is_platform_admin is None else is_platform_admin
    if not locked and not (user.is_active and user.is_platform_admin):
        raise ConflictError("This is the last platform admin. Make somebody else one first.")
    user.save()
    if not user.is_active:
        ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=now)
    after = {"is_active": user.is_active, "is_platform_admin": user.is_platform_admin, "password": password is not None}
    record(actor, now, "user.change", "user", user.username, before=before, after=after)
    return user


@transaction.atomic
def create_group(*, name: str, now: datetime, actor: Actor | None, display_name: str = "") -> Group:
    """Create a tenant. Raises InvalidInputError, ConflictError."""
    error = name_error("name", name)
    if error:
        raise InvalidInputError("The group cannot be created.", errors=[error])
    group = Group(name=name, display_name=display_name, created_at=now)
    _insert(group, f"The group name {name} is taken.", "name")
    record(actor, now, "group.create", "group", name, group=name)
    return group


@transaction.atomic
def set_member(*, group: Group, username: str, role: Role, now: datetime, actor: Actor | None) -> Membership:
    """Add a person to a group, or change the role. Doing it twice changes nothing."""
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        error = FieldError("username", "unknown_user", f"There is no active user {username}.")
        raise InvalidInputError("The member cannot be added.", errors=[error])
    found = Membership.objects.select_for_update(no_key=True).filter(group=group, user=user).first()
    before = {"role": ROLE_NAMES[Role(found.role)]} if found else None
    member, _ = Membership.objects.update_or_create(
        group=group, user=user, defaults={"role": role}, create_defaults={"role": role, "created_at": now}
    )
    after = {"role": ROLE_NAMES[role]}
    if before != after:
        record(actor, now, "member.set", "user", username, group=group.name, before=before, after=after)
    return member


@transaction.atomic
def remove_member(*, group: Group, user: User, now: datetime, actor: Actor) -> None:
    """Take a person out of a group. Their work there goes on until somebody of the group ends it."""
    deleted, _ = Membership.objects.filter(group=group, user=user).delete()
    if not deleted:
        raise NotFoundError
    record(actor, now, "member.remove", "user", user.username, group=group.name)


@transaction.atomic
def create_token(  # noqa: PLR0913 - the columns of a token
    *,
    user_id: int,
    name: str,
    now: datetime,
    expires_in_s: int,
    longest_s: int,
    actor: Actor | None,
    scopes: Collection[Scope] | None = None,
) -> NewToken:
    """Create an API token. A token cannot make one that may do more than itself.

    ``expires_in_s`` is capped by ``longest_s`` with an error, not silently.
    """
    errors = [error for error in (name_error("name", name),) if error]
    if not 1 <= expires_in_s <= longest_s:
        errors.append(FieldError("expires_in_s", "out_of_range", f"Choose 1 to {longest_s} seconds."))
    if actor is not None and actor.scopes is not None and (scopes is None or not set(scopes) <= actor.scopes):
        errors.append(FieldError("scopes", "too_wide", "A token cannot grant more than the one that asks for it."))
    if errors:
        raise InvalidInputError("The token cannot be created.", errors=errors)
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user_id=user_id,
        name=name,
        hint=secret[:10],
        digest=sha256(secret.encode()).digest(),
        scopes=None if scopes is None else sorted(scopes),
        created_at=now,
        expires_at=now + timedelta(seconds=expires_in_s),
    )
    after = {"name": name, "scopes": token.scopes, "expires_at": token.expires_at.isoformat()}
    record(actor, now, "token.create", "token", str(token.pk), after=after)
    return NewToken(token, secret)


@transaction.atomic
def revoke_token(*, user_id: int, token_id: int, now: datetime, actor: Actor) -> None:
    """End a token of this person at once. Raises NotFoundError."""
    if not ApiToken.objects.filter(pk=token_id, user_id=user_id, revoked_at=None).update(revoked_at=now):
        raise NotFoundError
    record(actor, now, "token.revoke", "token", str(token_id))


def touch_token(token: ApiToken, now: datetime) -> None:
    """Remember the last use, at most once a minute."""
    if token.last_used_at is None or now - token.last_used_at > timedelta(minutes=1):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


def check_password(*, username: str, password: str, address: str | None, now: datetime) -> User:
    """The person with this password. After 10 failures a minute the account waits (RateLimitedError).

    Unknown names cost the same time and answer the same (UnauthenticatedError).
    """
    recent = LoginFailure.objects.filter(username=username[:150], at__gt=now - FAILURE_WINDOW).count()
    if recent >= FAILURES_ALLOWED:
        raise RateLimitedError("Too many failed sign-ins. Wait a minute and try again.", retry_after_s=60)
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        User().set_password(password)  # as slow as a check
    if user is None or not user.check_password(password):
        LoginFailure.objects.create(username=username[:150], address=address, at=now)
        raise UnauthenticatedError("The user name or the password is wrong.")
    return user


def prune_login_failures(now: datetime) -> None:
    LoginFailure.objects.filter(at__lt=now - timedelta(hours=1)).delete()


def _password_errors(password: str, user: User) -> list[FieldError]:
    try:
        validate_password(password, user)
    except ValidationError as error:
        return [FieldError("password", "weak_password", message) for message in error.messages]
    return []


def _insert(row: User | Group, message: str, field: str) -> None:
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise ConflictError(message, errors=[FieldError(field, "taken", message)]) from error
