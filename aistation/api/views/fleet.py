"""Pools, nodes, cards, join tokens."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from aistation.api.authentication import actor_of
from aistation.api.fields import Nothing, Text
from aistation.api.idempotency import idempotent, idempotent_secret
from aistation.api.pagination import PageQuery
from aistation.api.serializers.fleet import (
    GpuOutput,
    JoinTokenInput,
    JoinTokenOutput,
    LabelsInput,
    NewJoinTokenOutput,
    NodeOutput,
    PoolChangeInput,
    PoolInput,
    PoolOutput,
)
from aistation.api.throttling import limit_rate
from aistation.api.views.base import (
    GONE,
    ApiView,
    answer_detail,
    answer_page,
    listing,
    operation,
    read_body,
    read_query,
    require_match,
)
from aistation.core.clock import now
from aistation.core.errors import FieldError, InvalidInputError, NotFoundError
from aistation.fleet import selectors, services
from aistation.tenancy.policy import Action
from aistation.tenancy.selectors import require
from aistation.workloads import reports


class Pools(ApiView):
    @operation("listPools", "Pools, by name", query=PageQuery, answer=listing(PoolOutput))
    def get(self, request: Request) -> Response:
        pools = selectors.list_pools(actor_of(request))
        return answer_page(request, pools, ("name",), read_query(request, PageQuery), PoolOutput)

    @operation("createPool", "Create a pool", body=PoolInput, answer=PoolOutput, status=201)
    @idempotent
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        require(actor, Action.MANAGE_POOLS)
        pool = services.create_pool(**read_body(request, PoolInput), now=now(), actor=actor)
        return answer_detail(PoolOutput(pool).data, 201)


class PoolDetail(ApiView):
    @operation("getPool", "One pool", answer=PoolOutput)
    def get(self, request: Request, pool: str) -> Response:
        return answer_detail(PoolOutput(selectors.access_pool(actor_of(request), pool)).data)

    @operation(
        "changePool", "Change a pool's rules; running work is left alone", body=PoolChangeInput, answer=PoolOutput
    )
    @transaction.atomic
    def patch(self, request: Request, pool: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_pool(actor, pool, Action.MANAGE_POOLS)
        changes = read_body(request, PoolChangeInput)
        require_match(request, lambda: PoolOutput(selectors.access_pool(actor, pool)).data)
        changed = services.change_pool(pool_id=found.pk, changes=changes, now=now(), actor=actor)
        return answer_detail(PoolOutput(changed).data)


class NodeQuery(PageQuery):
    pool = Text(63, required=False)


class Nodes(ApiView):
    @operation("listNodes", "Nodes, by name", query=NodeQuery, answer=listing(NodeOutput))
    def get(self, request: Request) -> Response:
        query = read_query(request, NodeQuery)
        nodes = _in_pool(selectors.list_nodes(actor_of(request)), "pool__name", query)
        return answer_page(request, nodes, ("name",), query, NodeOutput)


class NodeDetail(ApiView):
    @operation("getNode", "One node", answer=NodeOutput)
    def get(self, request: Request, node: str) -> Response:
        return answer_detail(NodeOutput(selectors.access_node(actor_of(request), node)).data)

    @operation("labelNode", "Replace a node's labels", body=LabelsInput, answer=NodeOutput)
    def patch(self, request: Request, node: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_node(actor, node, Action.MANAGE_NODES)
        labels = read_body(request, LabelsInput)["labels"]
        services.set_labels(node_id=found.pk, labels=labels, now=now(), actor=actor)
        return answer_detail(NodeOutput(selectors.access_node(actor, node)).data)

    @operation(
        "removeNode", "Remove a node and end its credential; 409 while work is booked on it", answer=GONE, status=204
    )
    def delete(self, request: Request, node: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_node(actor, node, Action.MANAGE_NODES)
        services.remove_node(node_id=found.pk, now=now(), actor=actor)
        return Response(status=204)


class NodeDuty(ApiView):
    """Base of the three verbs; each sets one duty."""

    duty: services.Duty

    def set_duty(self, request: Request, node: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_node(actor, node, Action.MANAGE_NODES)
        read_body(request, Nothing)
        services.set_duty(node_id=found.pk, duty=self.duty, now=now(), actor=actor)
        return answer_detail(NodeOutput(selectors.access_node(actor, node)).data)


class Cordon(NodeDuty):
    duty = services.Duty.CORDONED

    @operation("cordonNode", "Place nothing new on a node", answer=NodeOutput)
    @idempotent
    def post(self, request: Request, node: str) -> Response:
        return self.set_duty(request, node)


class Uncordon(NodeDuty):
    duty = services.Duty.IN_SERVICE

    @operation("uncordonNode", "Put a node back into service", answer=NodeOutput)
    @idempotent
    def post(self, request: Request, node: str) -> Response:
        return self.set_duty(request, node)


class Drain(NodeDuty):
    duty = services.Duty.DRAINING

    @operation("drainNode", "Place nothing new on a node and empty it", answer=NodeOutput)
    @idempotent
    def post(self, request: Request, node: str) -> Response:
        return self.set_duty(request, node)


class WriteOff(ApiView):
    @operation(
        "writeOffNode",
        "Say that a lost machine is off for good: what it held is free, jobs with retries wait again",
        answer=NodeOutput,
    )
    @idempotent
    def post(self, request: Request, node: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_node(actor, node, Action.MANAGE_NODES)
        read_body(request, Nothing)
        reports.write_off_node(node_id=found.pk, node_name=found.name, now=now(), actor=actor)
        return answer_detail(NodeOutput(selectors.access_node(actor, node)).data)


class GpuQuery(PageQuery):
    pool = Text(63, required=False)
    node = Text(63, required=False)


class Gpus(ApiView):
    @operation("listGpus", "Cards, by node and UUID", query=GpuQuery, answer=listing(GpuOutput))
    def get(self, request: Request) -> Response:
        query = read_query(request, GpuQuery)
        cards = _in_pool(selectors.list_devices(actor_of(request)), "node__pool__name", query)
        if "node" in query:
            cards = cards.filter(node__name=query["node"])
        return answer_page(request, cards, ("node__name", "uuid"), query, GpuOutput)


class JoinTokens(ApiView):
    @operation("listJoinTokens", "Join tokens, newest first", query=PageQuery, answer=listing(JoinTokenOutput))
    def get(self, request: Request) -> Response:
        tokens = selectors.list_join_tokens(actor_of(request))
        return answer_page(request, tokens, ("-id",), read_query(request, PageQuery), JoinTokenOutput)

    @operation(
        "createJoinToken",
        "Let one machine join a pool; the secret is shown once",
        body=JoinTokenInput,
        answer=NewJoinTokenOutput,
        status=201,
    )
    @idempotent_secret
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        require(actor, Action.MANAGE_NODES)
        limit_rate(actor, "join-token", 120)
        value = read_body(request, JoinTokenInput)
        try:
            pool = selectors.access_pool(actor, value["pool"])
        except NotFoundError as error:
            fault = FieldError("pool", "unknown_pool", "There is no such pool.")
            raise InvalidInputError("The join token cannot be created.", errors=[fault]) from error
        made = services.create_join_token(pool=pool, expires_in_s=value["expires_in_s"], now=now(), actor=actor)
        return Response({**JoinTokenOutput(made.token).data, "token": made.secret}, status=201)


class JoinTokenDetail(ApiView):
    @operation("revokeJoinToken", "End a join token that nobody has used", answer=GONE, status=204)
    def delete(self, request: Request, token_id: int) -> Response:
        actor = actor_of(request)
        require(actor, Action.MANAGE_NODES)
        services.revoke_join_token(token_id=token_id, now=now(), actor=actor)
        return Response(status=204)


def _in_pool(rows: QuerySet[Any], lookup: str, query: dict[str, Any]) -> QuerySet[Any]:
    return rows.filter(**{lookup: query["pool"]}) if "pool" in query else rows
