"""Every error of the API as a problem document (RFC 9457)."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponseBase, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from rest_framework import exceptions
from rest_framework.request import Request

from aistation.api import errors
from aistation.api.authentication import Caller
from aistation.api.services import record_refusal
from aistation.core.clock import now
from aistation.core.errors import (
    DomainError,
    FieldError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    RateLimitedError,
    UnauthenticatedError,
)
from aistation.core.middleware import database_away
from aistation.core.problems import problem_response

logger = logging.getLogger(__name__)
_CODES: Final = {
    "blank": "blank",
    "empty": "too_short",
    "invalid": "invalid_type",
    "invalid_choice": "unknown_choice",
    "max_length": "too_long",
    "max_value": "out_of_range",
    "min_length": "too_short",
    "min_value": "out_of_range",
    "not_a_dict": "invalid_type",
    "not_a_list": "invalid_type",
    "null_characters_not_allowed": "nul",
    "surrogate_characters_not_allowed": "surrogate",
}
"""DRF's words for a fault in the API's words; the others are the same."""


def handle_exception(error: Exception, context: Mapping[str, Any]) -> HttpResponseBase:
    """DRF's hook. Nothing of an unknown error is shown; the log has it all."""
    if isinstance(error, OperationalError | InterfaceError):
        return database_away()
    domain = _domain_error(error)
    if domain is None:
        request = context["request"]
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
        domain = errors.InternalError("Something went wrong on our side. It has been logged.")
    if isinstance(domain, ForbiddenError):
        _record(context["request"])
    response = problem_response(domain)
    if domain.status == UnauthenticatedError.status:
        response["WWW-Authenticate"] = "Bearer"
    if isinstance(error, exceptions.MethodNotAllowed):
        response["Allow"] = ", ".join(context["view"].allowed_methods)
    return response


def _record(request: Request) -> None:
    caller = request.user
    if isinstance(caller, Caller):
        record_refusal(actor=caller.actor, method=request.method or "", route=request.path, now=now())


def _domain_error(error: Exception) -> DomainError | None:
    if isinstance(error, DomainError):
        return error
    if isinstance(error, exceptions.ValidationError):
        return InvalidInputError("The request has mistakes.", errors=list(field_errors(error.detail)))
    if isinstance(error, Http404 | exceptions.NotFound):
        return NotFoundError()
    if isinstance(error, PermissionDenied | exceptions.PermissionDenied):
        return ForbiddenError("This is not allowed.")
    if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        return UnauthenticatedError("Sign in, or send 'Authorization: Bearer <token>'.")
    return _http_error(error)


def _http_error(error: Exception) -> DomainError | None:
    if isinstance(error, exceptions.MethodNotAllowed):
        return errors.MethodNotAllowedError("This address does not know that method.")
    if isinstance(error, exceptions.NotAcceptable):
        return errors.NotAcceptableError("The answer exists as application/json only. Change the Accept header.")
    if isinstance(error, exceptions.UnsupportedMediaType):
        return errors.UnsupportedMediaTypeError("Send application/json.")
    if isinstance(error, exceptions.Throttled):
        return RateLimitedError("Too many requests.", retry_after_s=60)
    if isinstance(error, RequestDataTooBig):
        return errors.TooLargeError("The body is too large.")
    if isinstance(error, SuspiciousOperation | MultiPartParserError | exceptions.ParseError | UnreadablePostError):
        return errors.BadRequestError("The request cannot be read.")
    return None


def field_errors(detail: Any, path: str = "") -> Iterator[FieldError]:
    """DRF's nested details as a flat list with paths like ``resources.gpus`` and ``folders[0].path``."""
    if isinstance(detail, Mapping):
        for key, part in detail.items():
            yield from field_errors(part, _join(path, key))
    elif isinstance(detail, list):
        for index, part in enumerate(detail):
            is_leaf = isinstance(part, exceptions.ErrorDetail)
            yield from field_errors(part, path if is_leaf else f"{path}[{index}]")
    else:
        code = getattr(detail, "code", "invalid")
        yield FieldError(path or "body", _CODES.get(code, code), str(detail))


def _join(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    if key == "non_field_errors":
        return path
    name = str(key)[:64].encode("ascii", "backslashreplace").decode()
    return f"{path}.{name}" if path else name
