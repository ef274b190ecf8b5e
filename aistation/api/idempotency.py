"""``Idempotency-Key``: the same POST sent twice is done once.

The key is claimed in the transaction of the work itself, so a crash leaves either both or neither. Only successes are
kept: a refused request may be sent again with the same key, corrected or later.
"""

import functools
import json
import re
from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.views import APIView

from aistation.api.authentication import actor_of
from aistation.api.errors import SecretShownError
from aistation.api.services import Attempted, StoredAnswer, claim_key, digest_of, keep_answer
from aistation.core.clock import now
from aistation.core.errors import FieldError, InvalidInputError

HEADER: Final = "Idempotency-Key"
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
P = ParamSpec("P")
V = TypeVar("V", bound=APIView)
Handler = Callable[Concatenate[V, Request, P], Response]


def idempotent(handler: Handler[V, P]) -> Handler[V, P]:
    """For a POST: with a key, answer a repeated request as the first one was answered."""
    return _wrap(handler, keeps_body=True)


def idempotent_secret(handler: Handler[V, P]) -> Handler[V, P]:
    """For a POST whose answer holds a secret: a repeated request is refused, the answer is kept nowhere."""
    return _wrap(handler, keeps_body=False)


def _wrap(handler: Handler[V, P], *, keeps_body: bool) -> Handler[V, P]:
    @functools.wraps(handler)
    def wrapper(view: V, request: Request, *args: P.args, **kwargs: P.kwargs) -> Response:
        key = request.headers.get(HEADER)
        if key is None:
            return handler(view, request, *args, **kwargs)
        attempted = _attempted(request, key)
        with transaction.atomic():
            stored = claim_key(attempted, now())
            if stored is not None:
                return _again(stored, keeps_body=keeps_body)
            response = handler(view, request, *args, **kwargs)
            body = json.loads(json.dumps(response.data, cls=JSONEncoder)) if keeps_body else None
            keep_answer(attempted, StoredAnswer(response.status_code, body))
        return response

    return cast("Handler[V, P]", wrapper)


def _attempted(request: Request, key: str) -> Attempted:
    if not _KEY.fullmatch(key):
        message = "Give 1 to 255 printable ASCII characters without spaces."
        raise InvalidInputError("The key is not usable.", errors=[FieldError(HEADER, "invalid", message)])
    body: Any = request.data
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    return Attempted(actor_of(request).user_id, key, request.path[:255], digest_of(request.path, canonical))


def _again(stored: StoredAnswer, *, keeps_body: bool) -> Response:
    if not keeps_body:
        raise SecretShownError("This was done by the first request with this key; its secret was shown once, there.")
    return Response(stored.body, status=stored.status, headers={"Idempotent-Replayed": "true"})
