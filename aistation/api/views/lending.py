"""Lending rules between pools, and warm reserves."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from aistation.api.authentication import actor_of
from aistation.api.idempotency import idempotent
from aistation.api.pagination import PageQuery
from aistation.api.serializers.fleet import (
    LendingChangeInput,
    LendingInput,
    LendingOutput,
    ReserveChangeInput,
    ReserveInput,
    ReserveOutput,
)
from aistation.api.views.base import (
    GONE,
    ApiView,
    answer_detail,
    answer_page,
    listing,
    operation,
    read_body,
    read_query,
)
from aistation.core.clock import now
from aistation.core.errors import FieldError, InvalidInputError, NotFoundError
from aistation.fleet import selectors, services
from aistation.tenancy.policy import Action, Actor
from aistation.tenancy.selectors import require


class LendingRules(ApiView):
    @operation("listLending", "Lending rules, by name", query=PageQuery, answer=listing(LendingOutput))
    def get(self, request: Request) -> Response:
        rules = selectors.list_lending(actor_of(request))
        return answer_page(request, rules, ("name",), read_query(request, PageQuery), LendingOutput)

    @operation(
        "createLending",
        "Let one pool's queue use another's idle cards",
        body=LendingInput,
        answer=LendingOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        require(actor, Action.MANAGE_POOLS)
        values = read_body(request, LendingInput)
        name, lender, borrower = values.pop("name"), _pool(actor, values, "lender"), _pool(actor, values, "borrower")
        rule = services.create_lending(
            name=name, lender=lender, borrower=borrower, values=values, now=now(), actor=actor
        )
        return answer_detail(LendingOutput(rule).data, 201)


class LendingDetail(ApiView):
    @operation("getLending", "One lending rule", answer=LendingOutput)
    def get(self, request: Request, rule: str) -> Response:
        return answer_detail(LendingOutput(selectors.access_lending(actor_of(request), rule)).data)

    @operation("changeLending", "Change a lending rule", body=LendingChangeInput, answer=LendingOutput)
    def patch(self, request: Request, rule: str) -> Response:
        actor = _manager(request)
        selectors.access_lending(actor, rule)
        changes = read_body(request, LendingChangeInput)
        services.change_lending(name=rule, changes=changes, now=now(), actor=actor)
        return answer_detail(LendingOutput(selectors.access_lending(actor, rule)).data)

    @operation(
        "deleteLending", "End a lending rule; what runs on lent cards is asked to leave", answer=GONE, status=204
    )
    def delete(self, request: Request, rule: str) -> Response:
        services.delete_lending(name=rule, now=now(), actor=_manager(request))
        return Response(status=204)


class Reserves(ApiView):
    @operation("listReserves", "Warm reserves, by name", query=PageQuery, answer=listing(ReserveOutput))
    def get(self, request: Request) -> Response:
        reserves = selectors.list_reserves(actor_of(request))
        return answer_page(request, reserves, ("name",), read_query(request, PageQuery), ReserveOutput)

    @operation("createReserve", "Keep room for environments", body=ReserveInput, answer=ReserveOutput, status=201)
    @idempotent
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        require(actor, Action.MANAGE_POOLS)
        values = read_body(request, ReserveInput)
        name, pool = values.pop("name"), _pool(actor, values, "pool")
        reserve = services.create_reserve(name=name, pool=pool, values=values, now=now(), actor=actor)
        return answer_detail(ReserveOutput(reserve).data, 201)


class ReserveDetail(ApiView):
    @operation("getReserve", "One warm reserve", answer=ReserveOutput)
    def get(self, request: Request, reserve: str) -> Response:
        return answer_detail(ReserveOutput(selectors.access_reserve(actor_of(request), reserve)).data)

    @operation("changeReserve", "Change a warm reserve", body=ReserveChangeInput, answer=ReserveOutput)
    def patch(self, request: Request, reserve: str) -> Response:
        actor = _manager(request)
        changes = read_body(request, ReserveChangeInput)
        services.change_reserve(name=reserve, changes=changes, now=now(), actor=actor)
        return answer_detail(ReserveOutput(selectors.access_reserve(actor, reserve)).data)

    @operation("deleteReserve", "End a warm reserve", answer=GONE, status=204)
    def delete(self, request: Request, reserve: str) -> Response:
        services.delete_reserve(name=reserve, now=now(), actor=_manager(request))
        return Response(status=204)


def _manager(request: Request) -> Actor:
    actor = actor_of(request)
    require(actor, Action.MANAGE_POOLS)
    return actor


def _pool(actor: Actor, values: dict[str, Any], field: str) -> Any:
    name = values.pop(field)
    try:
        return selectors.access_pool(actor, name)
    except NotFoundError as error:
        message = f"There is no pool {name}."
        raise InvalidInputError(message, errors=[FieldError(field, "unknown_pool", message)]) from error
