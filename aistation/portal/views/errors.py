"""Django's handlers, for what no view answers. Programs get problems, people get pages."""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from aistation.core.errors import DomainError, ForbiddenError, NotFoundError
from aistation.core.problems import problem_response
from aistation.portal.pages import error_page

_FOR_PROGRAMS = ("/api/", "/agent/", "/internal/", "/healthz", "/readyz", "/metrics")


class _InternalError(DomainError):
    code = "internal"
    status = HTTPStatus.INTERNAL_SERVER_ERROR


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, NotFoundError())


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, ForbiddenError(_("This is not allowed.")))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without its token: an old page, or another site's."""
    return _answer(request, ForbiddenError(_("The form has become stale. Go back, reload the page and send it again.")))


def server_error(request: HttpRequest) -> HttpResponse:
    return _answer(request, _InternalError(_("The error was logged. Try again; if it stays, tell an administrator.")))


def _answer(request: HttpRequest, error: DomainError) -> HttpResponse:
    if request.path.startswith(_FOR_PROGRAMS):
        return problem_response(error)
    return error_page(request, error.status, error.message)
