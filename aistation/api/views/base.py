"""What all views of the API share: reading input, answering, ETags, documentation."""

import functools
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, TypeVar

from django.db.models import Model, QuerySet
from drf_spectacular.utils import OpenApiResponse, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.views import APIView

from aistation.api import services
from aistation.api.errors import PreconditionFailedError, TokenInUrlError
from aistation.api.fields import Input, Output, Query
from aistation.api.pagination import page_of

_SECRET_PARAMETERS: Final = frozenset({"token", "access_token", "api_key", "apikey", "auth", "authorization", "key"})
GONE: Final = OpenApiResponse(description="Done.")
"""What a DELETE documents: 204 without a body."""
Method = TypeVar("Method", bound=Callable[..., Any])
Row = TypeVar("Row", bound=Model)


class ApiView(APIView):
    """Base of all views: signed-in callers only, problems for errors, no secrets in URLs."""

    metadata_class = None  # OPTIONS is not a way to look around

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if _SECRET_PARAMETERS & {name.lower() for name in request.query_params}:
            raise TokenInUrlError("Send the token in the Authorization header: URLs end up in logs.")
        super().initial(request, *args, **kwargs)


def operation(
    operation_id: str,
    summary: str,
    *,
    answer: Any = None,
    status: int = 200,
    body: Any = None,
    query: type[Query] | None = None,
) -> Callable[[Method], Method]:
    """Describe one method of a view for OpenAPI. Problems and common headers are added to all (see schema.py)."""
    responses = answer if isinstance(answer, dict) else {status: answer}
    parameters = [query] if query else None
    return extend_schema(
        operation_id=operation_id, summary=summary, request=body, responses=responses, parameters=parameters
    )


@functools.cache
def listing(output: type[Output]) -> serializers.Serializer[Any]:
    """The schema of a page of ``output``."""
    fields: dict[str, serializers.Field[Any, Any, Any, Any]] = {
        "results": output(many=True),
        "next": serializers.URLField(allow_null=True, help_text="The next page; null: this is the last."),
    }
    return inline_serializer(f"{output.__name__.removesuffix('Output')}Page", fields)


def read_body(request: Request, expected: type[Input], *, many: bool = False) -> Any:
    """The checked values of the body. An empty body is an empty object."""
    reader = expected(data=request.data, many=many)
    reader.is_valid(raise_exception=True)
    return reader.validated_data


def read_query(request: Request, expected: type[Query]) -> dict[str, Any]:
    """The checked parameters of the query string. Each may be there once."""
    twice = [name for name in request.query_params if len(request.query_params.getlist(name)) > 1]
    if twice:
        raise serializers.ValidationError({name: [ErrorDetail("Give it once.", "duplicate_key")] for name in twice})
    reader = expected(data=request.query_params.dict())
    reader.is_valid(raise_exception=True)
    values: dict[str, Any] = reader.validated_data
    return values


def answer_page(
    request: Request,
    rows: QuerySet[Row],
    key: Sequence[str],
    query: dict[str, Any],
    output: type[Output],
    context: Callable[[list[Row]], Mapping[str, Any]] | None = None,
) -> Response:
    """``{"results": [...], "next": url|null}``. ``context`` reads what the whole page needs in one go."""
    found, following = page_of(request, rows, key, query)
    shown = represent(output, found, context(found) if context else {})
    return Response({"results": shown, "next": following})


_of_thread = threading.local()


def represent(output: type[Output], rows: Iterable[Any], context: Mapping[str, Any]) -> list[dict[str, Any]]:
    """``output(rows, many=True, context=context).data`` with one serializer a thread: making one copies all its
    fields, which took longer than the rows of a page."""
    serializer = getattr(_of_thread, output.__name__, None)
    if serializer is None:
        serializer = output()
        setattr(_of_thread, output.__name__, serializer)
    serializer._context = dict(context)
    return [serializer.to_representation(row) for row in rows]


def etag_of(data: object) -> str:
    return '"' + sha256(json.dumps(data, sort_keys=True, cls=JSONEncoder).encode()).hexdigest()[:32] + '"'


def answer_detail(data: Mapping[str, Any], status: int = 200) -> Response:
    """One thing, with its ETag."""
    return Response(data, status=status, headers={"ETag": etag_of(data)})


def require_match(request: Request, read: Callable[[], object]) -> None:
    """With ``If-Match``: go on only if the thing is still as the caller saw it. Call it in the transaction of the
    change; changes of one address then pass one after the other."""
    wanted = request.headers.get("If-Match")
    if wanted is None or wanted.strip() == "*":
        return
    services.serialise(request.path)
    if etag_of(read()) not in [tag.strip().removeprefix("W/") for tag in wanted.split(",")]:
        raise PreconditionFailedError("It has changed since you read it. Read it again, then decide.")
