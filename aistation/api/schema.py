"""What OpenAPI should say of all operations alike."""

from functools import cache
from typing import Any, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator

_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "RFC 9457. `code` never changes; `errors` is there for bad input.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "code", "message"],
                "properties": {name: {"type": "string"} for name in ("field", "code", "message")},
            },
        },
    },
}
_ALWAYS: Final = {
    "400": "The request has mistakes.",
    "401": "Not signed in.",
    "403": "Not allowed.",
    "404": "There is no such thing, or it is not yours to see.",
    "406": "The answer exists as JSON only.",
    "429": "Too many requests.",
    "503": "A part is away for a moment.",
}
_WITH_BODY: Final = {"413": "The body is too large.", "415": "The body is not JSON."}
_WRITES: Final = {"409": "It does not go with the present state, or the key is in use."}
_IDEMPOTENCY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A repeated request with the same key is done once, for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[\\x21-\\x7e]+$"},
}
_IF_MATCH: Final = {
    "name": "If-Match",
    "in": "header",
    "description": "Change it only if it still has this ETag; else 412.",
    "schema": {"type": "string", "maxLength": 255},
}


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "aistation.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "aistation.api.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        description = "The portal's session; anything but a read needs the X-CSRFToken header too."
        return {"type": "apiKey", "in": "cookie", "name": "aistation_session", "description": description}


def only_ours(endpoints: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """drf-spectacular's hook: the other edges are not part of the API."""
    return [endpoint for endpoint in endpoints if endpoint[0].startswith("/api/v1/")]


def complete(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:  # noqa: FBT001
    """drf-spectacular's hook: problems, common headers, and objects that take no unknown field."""
    schemas = result["components"]["schemas"]
    schemas["Problem"] = _PROBLEM
    for name, schema in schemas.items():
        if name.endswith("Request") and schema.get("type") == "object":
            schema.setdefault("additionalProperties", False)
    for operations in result["paths"].values():
        for method, operation in operations.items():
            _complete_operation(method, operation)
    return result


def _complete_operation(method: str, operation: dict[str, Any]) -> None:
    problems = dict(_ALWAYS)
    if method != "get":
        problems |= _WRITES
    if method in ("post", "put", "patch"):
        problems |= _WITH_BODY
    if method == "post":
        operation.setdefault("parameters", []).append(_IDEMPOTENCY)
    if method in ("put", "patch"):
        operation.setdefault("parameters", []).append(_IF_MATCH)
        problems["412"] = "It has changed since you read it."
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, description in problems.items():
        operation["responses"].setdefault(status, {"description": description, "content": content})
    operation["responses"] = dict(sorted(operation["responses"].items()))


@cache
def openapi() -> dict[str, Any]:
    """The document. The same for everybody, so it is made once a process."""
    schema: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return schema
