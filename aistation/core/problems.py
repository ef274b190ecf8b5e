"""Errors as RFC 9457 problem documents."""

from typing import Any

from django.http import HttpRequest, JsonResponse

from aistation.core.errors import DomainError, InvalidInputError


def problem(error: DomainError) -> dict[str, Any]:
    """The members of the problem document; ``errors`` is there for bad input only."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": _TITLES.get(error.status, "Error"),
        "status": error.status,
        "code": error.code,
        "detail": error.message,
        **error.extra,
    }
    if error.errors:
        body["errors"] = [{"field": e.field, "code": e.code, "message": e.message, **e.facts} for e in error.errors]
    return body


def problem_response(error: DomainError) -> JsonResponse:
    response = JsonResponse(problem(error), status=error.status, content_type="application/problem+json")
    if "retry_after_s" in error.extra:
        response["Retry-After"] = str(error.extra["retry_after_s"])
    return response


def bad_request(request: HttpRequest, exception: Exception) -> JsonResponse:
    """Django's page for a request that it cannot take: a host that is not ours, too many fields."""
    return problem_response(InvalidInputError("The request cannot be read."))


_TITLES = {
    400: "Bad request",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    409: "Conflict",
    412: "Changed meanwhile",
    413: "Too large",
    415: "Unsupported media type",
    429: "Too many requests",
    500: "Internal error",
    503: "Unavailable",
}
