"""Bodies of requests and answers. Whatever an agent sends, the answer is a problem that names the field, no 500."""

from typing import ClassVar, Final, TypeVar

from django.http import HttpRequest, HttpResponse, UnreadablePostError
from pydantic import BaseModel, ValidationError

from agentapi.v1 import PROTOCOL, Message
from aistation.core.errors import DomainError, FieldError, InvalidInputError

M = TypeVar("M", bound=Message)

_MOST_ERRORS: Final = 20


class ProtocolUnsupportedError(DomainError):
    """The agent speaks a version of the wire that this server does not."""

    code: ClassVar[str] = "protocol_unsupported"
    status: ClassVar[int] = 400


class TooLargeError(DomainError):
    code: ClassVar[str] = "too_large"
    status: ClassVar[int] = 413


class MethodNotAllowedError(DomainError):
    code: ClassVar[str] = "method_not_allowed"
    status: ClassVar[int] = 405


class _Envelope(BaseModel):
    """All that is understood of a message of another protocol."""

    protocol: int = PROTOCOL


def read(request: HttpRequest, message: type[M], *, longest: int) -> M:
    """The request's body as a ``message``. Raises TooLargeError, ProtocolUnsupportedError, InvalidInputError."""
    body = _body(request, longest)
    try:
        found = message.model_validate_json(body)
    except ValidationError as error:
        _require_protocol(_protocol(body))
        raise InvalidInputError(f"This is no {message.__name__}.", errors=_field_errors(error)) from error
    _require_protocol(getattr(found, "protocol", PROTOCOL))
    return found


def reply(message: Message) -> HttpResponse:
    return HttpResponse(message.model_dump_json(), content_type="application/json")


def require_method(request: HttpRequest, method: str) -> None:
    """Raises MethodNotAllowedError for any other one."""
    if request.method != method:
        raise MethodNotAllowedError(f"Use {method} here.")


def _body(request: HttpRequest, longest: int) -> bytes:
    stated = request.META.get("CONTENT_LENGTH") or "0"
    if stated.isdecimal() and int(stated[:12]) > longest:
        raise TooLargeError(f"At most {longest} bytes are taken here.")
    try:
        return request.body
    except UnreadablePostError as error:
        raise InvalidInputError("The body broke off.") from error


def _protocol(body: bytes) -> int:
    try:
        return _Envelope.model_validate_json(body).protocol
    except ValidationError:
        return PROTOCOL


def _require_protocol(protocol: int) -> None:
    if protocol != PROTOCOL:
        raise ProtocolUnsupportedError(
            f"This server speaks protocol {PROTOCOL}, the agent {protocol}. Update the older of the two.",
            supported=[PROTOCOL],
        )


def _field_errors(error: ValidationError) -> list[FieldError]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        FieldError(".".join(str(part) for part in one["loc"]), one["type"], one["msg"]) for one in found[:_MOST_ERRORS]
    ]
