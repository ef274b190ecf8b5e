"""Logs, byte for byte."""

from collections.abc import Callable
from typing import Any, Final

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from aistation.api.authentication import actor_of, reauthenticate
from aistation.api.fields import Choice, Query, QueryFlag, QueryInteger
from aistation.api.logs import Following, follow
from aistation.api.views.base import ApiView, operation, read_query
from aistation.core.errors import NotFoundError
from aistation.tenancy.policy import Action
from aistation.workloads import logs, selectors
from aistation.workloads.lifecycle import Kind

LONGEST_OFFSET: Final = 10**15
BYTES: Final = OpenApiResponse(OpenApiTypes.BINARY, description="The bytes of the log.")


class LogQuery(Query):
    offset = QueryInteger(0, LONGEST_OFFSET, default=0, help_text="Bytes to skip; both streams share the count.")
    attempt = QueryInteger(1, required=False, help_text="Absent: the latest.")
    task = QueryInteger(0, 32767, default=0, help_text="The task's rank.")
    stream = Choice(("stdout", "stderr"), required=False, help_text="Absent: both, as they came.")
    follow = QueryFlag(default=False, help_text="Go on until the task ends.")


class AnyBytes(DefaultContentNegotiation):
    """A log is bytes, whatever the Accept header wishes for."""

    def select_renderer(
        self, request: Any, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type


class Logs(ApiView):
    content_negotiation_class = AnyBytes
    kind: Kind

    def answer(self, request: Request, uid: str) -> StreamingHttpResponse:
        found = selectors.access_workload(actor_of(request), uid, self.kind, Action.VIEW_LOGS)
        query = read_query(request, LogQuery)
        offset, stream, attempt, rank = query["offset"], query.get("stream"), query.get("attempt"), query["task"]
        if rank >= found.tasks_count or (attempt or 0) > found.attempt:
            raise NotFoundError
        if query["follow"]:
            place = Following(found.pk, found.uid, rank, attempt, stream, offset)
            return _stream(follow(place, self._still_allowed(request, uid)))
        task = selectors.find_task(found.pk, attempt=attempt, rank=rank)
        if task is None:
            return _stream(iter(()), length=0, offset=offset, after=offset, is_complete=False)
        end = task.log_stored
        pieces = logs.read_all(task.pk, offset=offset, stream=stream, until=end)
        length = max(0, end - offset) if stream is None else None
        is_complete = task.settled_at is not None
        return _stream(pieces, length=length, offset=offset, after=max(end, offset), is_complete=is_complete)

    def _still_allowed(self, request: Request, uid: str) -> Callable[[], None]:
        def check() -> None:
            selectors.access_workload(reauthenticate(request), uid, self.kind, Action.VIEW_LOGS)

        return check


class JobLogs(Logs):
    kind = Kind.JOB

    @operation(
        "getJobLogs", "The log of one task of a job", query=LogQuery, answer={(200, "application/octet-stream"): BYTES}
    )
    def get(self, request: Request, job: str) -> StreamingHttpResponse:
        return self.answer(request, job)


class EnvironmentLogs(Logs):
    kind = Kind.ENVIRONMENT

    @operation(
        "getEnvironmentLogs",
        "The log of an environment",
        query=LogQuery,
        answer={(200, "application/octet-stream"): BYTES},
    )
    def get(self, request: Request, environment: str) -> StreamingHttpResponse:
        return self.answer(request, environment)


def _stream(
    pieces: Any,
    *,
    length: int | None = None,
    offset: int | None = None,
    after: int | None = None,
    is_complete: bool | None = None,
) -> StreamingHttpResponse:
    """Bytes that no browser takes for a page."""
    response = StreamingHttpResponse(pieces, content_type="application/octet-stream")
    response["Content-Disposition"] = 'attachment; filename="log.txt"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    if length is not None:
        response["Content-Length"] = str(length)
    if offset is not None and after is not None:
        response["X-Log-Offset"] = str(offset)
        response["X-Log-Next-Offset"] = str(after)
        response["X-Log-Complete"] = "true" if is_complete else "false"
    return response
