"""Puts the policy's `Actor` on each request of a signed-in person."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from aistation.tenancy import selectors


class ActorMiddleware:
    """``request.actor``: an Actor, or None for a stranger. Roles are read anew on each request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = request.user
        request.actor = selectors.actor_of(user.pk) if user.is_authenticated else None  # type: ignore[attr-defined]
        return self.get_response(request)
