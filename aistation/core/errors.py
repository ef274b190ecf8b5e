"""Errors that a person can act on. Each has a ``code`` that never changes and an HTTP status.

Services raise them; edges turn them into problems (RFC 9457) or messages on a page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field. ``field`` is a dotted path like ``resources.gpus``.

    ``facts`` join the error's members, for programs: whose rule it is, what was asked, what would pass.
    """

    field: str
    code: str
    message: str
    facts: Mapping[str, Any] = dataclass_field(default_factory=dict)


class DomainError(Exception):
    """Base of all. ``extra`` joins the problem's members."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 400

    def __init__(self, message: str, *, errors: Sequence[FieldError] = (), **extra: Any) -> None:
        super().__init__(message)
        self.message = message
        self.errors = tuple(errors)
        self.extra = extra


class InvalidInputError(DomainError):
    code = "invalid"
    status = 400


class UnauthenticatedError(DomainError):
    code = "unauthenticated"
    status = 401


class ForbiddenError(DomainError):
    """The thing is visible, the action is not allowed. For what is not visible use NotFoundError."""

    code = "forbidden"
    status = 403


class NotFoundError(DomainError):
    """Absent, or not for this person's eyes: the two must not be told apart."""

    code = "not_found"
    status = 404

    def __init__(self, message: str = "There is no such thing, or it is not yours to see.") -> None:
        super().__init__(message)


class ConflictError(DomainError):
    code = "conflict"
    status = 409


class NeverFitsError(DomainError):
    """The request could not start even on an idle cluster; ``errors`` names every scope that forbids it."""

    code = "never_fits"
    status = 400


class QuotaExceededError(DomainError):
    """A count that is checked at once (queued jobs, priority) is used up."""

    code = "quota_exceeded"
    status = 409


class RateLimitedError(DomainError):
    code = "rate_limited"
    status = 429

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.retry_after_s = retry_after_s


class UnavailableError(DomainError):
    """A part that we need is away for a moment."""

    code = "unavailable"
    status = 503
