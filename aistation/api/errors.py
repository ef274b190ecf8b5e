"""Errors that only HTTP knows."""

from typing import ClassVar

from aistation.core.errors import DomainError


class MalformedError(DomainError):
    """The body is not the JSON that it should be."""

    code: ClassVar[str] = "malformed_json"
    status: ClassVar[int] = 400


class BadRequestError(DomainError):
    code: ClassVar[str] = "bad_request"
    status: ClassVar[int] = 400


class TokenInUrlError(DomainError):
    """A secret in a URL ends up in logs and histories."""

    code: ClassVar[str] = "token_in_url"
    status: ClassVar[int] = 400


class CsrfError(DomainError):
    code: ClassVar[str] = "csrf_failed"
    status: ClassVar[int] = 403


class MethodNotAllowedError(DomainError):
    code: ClassVar[str] = "method_not_allowed"
    status: ClassVar[int] = 405


class NotAcceptableError(DomainError):
    code: ClassVar[str] = "not_acceptable"
    status: ClassVar[int] = 406


class InProgressError(DomainError):
    """The same request, by its idempotency key, is being worked on."""

    code: ClassVar[str] = "in_progress"
    status: ClassVar[int] = 409


class KeyReusedError(DomainError):
    """The idempotency key was used for another request."""

    code: ClassVar[str] = "idempotency_conflict"
    status: ClassVar[int] = 409


class SecretShownError(DomainError):
    """The request was done before, and its answer held a secret that is kept nowhere."""

    code: ClassVar[str] = "secret_shown_once"
    status: ClassVar[int] = 409


class PreconditionFailedError(DomainError):
    """The thing has changed since the caller read it (If-Match)."""

    code: ClassVar[str] = "precondition_failed"
    status: ClassVar[int] = 412


class TooLargeError(DomainError):
    code: ClassVar[str] = "too_large"
    status: ClassVar[int] = 413


class UnsupportedMediaTypeError(DomainError):
    code: ClassVar[str] = "unsupported_media_type"
    status: ClassVar[int] = 415


class InternalError(DomainError):
    """A fault of ours; the log has the details."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
