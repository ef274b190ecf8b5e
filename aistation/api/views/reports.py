"""The queue, present use, the audit log."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from aistation.api.authentication import actor_of
from aistation.api.fields import Choice, Output, Text
from aistation.api.pagination import PageQuery
from aistation.api.serializers.quotas import UsageOutput
from aistation.api.serializers.workloads import KINDS, QueueOutput
from aistation.api.views.base import ApiView, answer_page, listing, operation, read_query
from aistation.api.views.jobs import positions
from aistation.audit.selectors import list_events
from aistation.quotas.selectors import list_use
from aistation.tenancy.policy import Action
from aistation.tenancy.selectors import require
from aistation.workloads.selectors import list_waiting


class QueueQuery(PageQuery):
    pool = Text(63, required=False)
    group = Text(63, required=False)
    kind = Choice(KINDS, required=False)


class Queue(ApiView):
    @operation(
        "listQueue",
        "What waits in your groups, by pool and place, with the reasons",
        query=QueueQuery,
        answer=listing(QueueOutput),
    )
    def get(self, request: Request) -> Response:
        query = read_query(request, QueueQuery)
        lookups = {"pool": "pool__name", "group": "group__name", "kind": "kind"}
        words = {lookup: query[name] for name, lookup in lookups.items() if name in query}
        rows = list_waiting(actor_of(request)).filter(**words)
        key = ("pool__name", "-priority", "queued_at", "uid")
        return answer_page(request, rows, key, query, QueueOutput, context=positions)


class UsageQuery(PageQuery):
    group = Text(63, required=False)
    user = Text(63, required=False)
    pool = Text(63, required=False)


class Usage(ApiView):
    @operation(
        "listUsage", "What your groups and their members hold now", query=UsageQuery, answer=listing(UsageOutput)
    )
    def get(self, request: Request) -> Response:
        query = read_query(request, UsageQuery)
        lookups = {"group": "group__name", "user": "user__username", "pool": "pool__name"}
        words = {lookup: query[name] for name, lookup in lookups.items() if name in query}
        rows = list_use(actor_of(request)).filter(**words)
        return answer_page(request, rows, ("id",), query, UsageOutput)


class AuditQuery(PageQuery):
    actor = Text(64, required=False)
    target_type = Text(32, required=False)
    target = Text(128, required=False)
    group = Text(64, required=False)


class AuditOutput(Output):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    via = serializers.CharField()
    action = serializers.CharField()
    target_type = serializers.CharField()
    target = serializers.CharField()
    group = serializers.CharField(allow_blank=True)
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class Audit(ApiView):
    @operation("listAudit", "Who changed what, newest first", query=AuditQuery, answer=listing(AuditOutput))
    def get(self, request: Request) -> Response:
        require(actor_of(request), Action.VIEW_AUDIT)
        query = read_query(request, AuditQuery)
        words: dict[str, Any] = {
            name: query[name] for name in ("actor", "target_type", "target", "group") if name in query
        }
        return answer_page(request, list_events(**words), ("-id",), query, AuditOutput)
