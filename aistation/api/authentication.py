"""Who calls the API: a bearer token of a person, or the portal's session with its CSRF token.

Node tokens open ``/agent/v1/`` only and are unknown here.
"""

from dataclasses import dataclass
from typing import Final, cast

from django.contrib.auth import get_user
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from aistation.api.errors import CsrfError
from aistation.core.clock import now
from aistation.core.errors import UnauthenticatedError
from aistation.tenancy import selectors, services
from aistation.tenancy.policy import Actor

SCHEME: Final = "Bearer"


@dataclass(frozen=True, slots=True)
class Caller:
    """What ``request.user`` is in the API: an `Actor` in the clothes that DRF asks for."""

    actor: Actor
    is_authenticated: bool = True
    is_active: bool = True

    @property
    def pk(self) -> int:
        return self.actor.user_id


def actor_of(request: Request) -> Actor:
    """The caller of a request that has passed authentication."""
    return cast("Caller", request.user).actor


def reauthenticate(request: Request) -> Actor:
    """The caller as of now, for answers that take long. Raises UnauthenticatedError: the token or session is over."""
    header = request.META.get("HTTP_AUTHORIZATION", "")
    if header:
        return selectors.actor_of_token(header.partition(" ")[2].strip(), now())[0]
    fresh = HttpRequest()
    fresh.session = type(request.session)(request.session.session_key)
    user = get_user(fresh)
    actor = selectors.actor_of(user.pk) if user.is_authenticated else None
    if actor is None:
        raise UnauthenticatedError("The session is over.")
    return actor


class TokenAuthentication(BaseAuthentication):
    """``Authorization: Bearer <token>``. A wrong token is refused even where a session would do."""

    def authenticate(self, request: Request) -> tuple[Caller, None] | None:
        header = request.META.get("HTTP_AUTHORIZATION", "")
        if not header:
            return None
        scheme, _, secret = header.partition(" ")
        if scheme.lower() != SCHEME.lower() or not secret.strip():
            raise UnauthenticatedError("Send 'Authorization: Bearer <token>'.")
        instant = now()
        actor, token = selectors.actor_of_token(secret.strip(), instant)
        services.touch_token(token, instant)
        return Caller(actor), None

    def authenticate_header(self, request: Request) -> str:
        return SCHEME


class SessionAuthentication(BaseAuthentication):
    """The signed-in person of the portal. Anything but a read needs the CSRF token."""

    def authenticate(self, request: Request) -> tuple[Caller, None] | None:
        plain: HttpRequest = request._request
        actor: Actor | None = getattr(plain, "actor", None)
        if actor is None:
            return None
        _enforce_csrf(plain)
        return Caller(actor), None


def _enforce_csrf(request: HttpRequest) -> None:
    check = CSRFCheck(lambda _: None)  # type: ignore[arg-type]
    check.process_request(request)
    reason = check.process_view(request, None, (), {})  # type: ignore[arg-type]
    if reason:
        raise CsrfError(f"The request does not come from a page of the portal: {reason}")
