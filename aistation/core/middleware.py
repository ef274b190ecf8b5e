"""Middleware that belongs to no noun: errors become problems, every answer carries the security headers."""

import logging
from collections.abc import Callable

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse

from aistation.core.errors import DomainError, UnavailableError
from aistation.core.problems import problem_response

logger = logging.getLogger(__name__)
GetResponse = Callable[[HttpRequest], HttpResponse]


class ProblemMiddleware:
    """Turn errors that no view handled into RFC 9457 problems; a database away is 503 with Retry-After."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            return self.get_response(request)
        except (OperationalError, InterfaceError):
            return database_away()

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """None lets Django go on: an unknown error is logged and answered with 500."""
        if isinstance(error, DomainError):
            return problem_response(error)
        if isinstance(error, OperationalError | InterfaceError):
            return database_away()
        return None


def database_away() -> HttpResponse:
    logger.warning("database unavailable")
    response = problem_response(UnavailableError("The database does not answer. Try again in a few seconds."))
    response["Retry-After"] = "2"
    return response


class SecurityHeadersMiddleware:
    """Content Security Policy without inline script, and no framing."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        sockets = settings.PORTAL_URL.replace("http", "ws", 1)
        self.policy = "; ".join(
            (
                "default-src 'self'",
                f"connect-src 'self' {sockets}",
                "img-src 'self' data:",
                "style-src 'self' 'unsafe-inline'",  # widths of bars; scripts stay strict
                "object-src 'none'",
                "base-uri 'none'",
                "form-action 'self'",
                "frame-ancestors 'none'",
            )
        )

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.setdefault("Content-Security-Policy", self.policy)
        response.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        return response
