"""Keyset pages: each names the place where the next begins, so their cost does not grow with the offset."""

import functools
import operator
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from django.core.signing import BadSignature, Signer
from django.db.models import Model, Q, QuerySet
from rest_framework.request import Request

from aistation.api.fields import Query, QueryInteger, Text
from aistation.core.errors import FieldError, InvalidInputError

MOST: Final = 200
USUAL: Final = 50
Row = TypeVar("Row", bound=Model)


class PageQuery(Query):
    """Parameters of every list."""

    limit = QueryInteger(1, 10**18 - 1, default=USUAL, help_text=f"Rows of a page; more than {MOST} means {MOST}.")
    cursor = Text(2048, required=False, help_text="From `next` of the page before. Opaque.")


def page_of(
    request: Request, rows: QuerySet[Row], key: Sequence[str], query: dict[str, Any]
) -> tuple[list[Row], str | None]:
    """One page of ``rows``, and the URL of the next (None: this is the last).

    ``key`` are lookups that together are unique, with ``-`` for descending, as in ``order_by``.
    """
    limit = min(query["limit"], MOST)
    signer = Signer(salt=f"cursor:{request.path}")
    rows = rows.order_by(*key)
    if "cursor" in query:
        rows = rows.filter(_after(key, _read_cursor(signer, query["cursor"], len(key))))
    found = list(rows[: limit + 1])
    if len(found) <= limit:
        return found, None
    found.pop()
    cursor = signer.sign_object([_value(found[-1], lookup) for lookup in key])
    parameters = request.query_params.copy()
    parameters["cursor"] = cursor
    return found, request.build_absolute_uri(f"{request.path}?{parameters.urlencode()}")


def _read_cursor(signer: Signer, cursor: str, length: int) -> list[Any]:
    try:
        values = signer.unsign_object(cursor)
    except (BadSignature, ValueError):
        values = None
    if not isinstance(values, list) or len(values) != length:
        error = FieldError("cursor", "invalid", "Take the cursor from 'next' of the page before.")
        raise InvalidInputError("The cursor is not one of ours.", errors=[error])
    return values


def _after(key: Sequence[str], values: Sequence[Any]) -> Q:
    """Rows behind these values: (a > x) or (a = x and b > y) or ..., with < where descending."""
    choices = []
    for index, lookup in enumerate(key):
        same = {name.lstrip("-"): value for name, value in zip(key[:index], values[:index], strict=True)}
        comparison = "lt" if lookup.startswith("-") else "gt"
        choices.append(Q(**same, **{f"{lookup.lstrip('-')}__{comparison}": values[index]}))
    return functools.reduce(operator.or_, choices)


def _value(row: Model, lookup: str) -> str | int:
    value: Any = functools.reduce(getattr, lookup.lstrip("-").split("__"), row)
    return value if isinstance(value, int) else value.isoformat() if hasattr(value, "isoformat") else str(value)
