"""Groups, their members, their quotas."""

from typing import Any

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from aistation.api.authentication import actor_of
from aistation.api.idempotency import idempotent
from aistation.api.pagination import PageQuery
from aistation.api.serializers.quotas import QuotaInput, QuotaOutput, numbers_of
from aistation.api.serializers.tenancy import GroupInput, GroupOutput, MemberInput, MemberOutput
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
from aistation.core.errors import FieldError, InvalidInputError
from aistation.fleet.selectors import list_pools
from aistation.quotas import selectors as quota_selectors
from aistation.quotas import services as quota_services
from aistation.tenancy import selectors, services
from aistation.tenancy.policy import ROLES_BY_NAME, Action, Actor
from aistation.workloads import offboarding


class Groups(ApiView):
    @operation(
        "listGroups",
        "Your groups, by name; all of them for platform admins",
        query=PageQuery,
        answer=listing(GroupOutput),
    )
    def get(self, request: Request) -> Response:
        groups = selectors.list_groups(actor_of(request))
        return answer_page(request, groups, ("name",), read_query(request, PageQuery), GroupOutput)

    @operation("createGroup", "Create a group", body=GroupInput, answer=GroupOutput, status=201)
    @idempotent
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        selectors.require(actor, Action.MANAGE_GROUPS)
        group = services.create_group(**read_body(request, GroupInput), now=now(), actor=actor)
        return answer_detail(GroupOutput(group).data, 201)


class GroupDetail(ApiView):
    @operation("getGroup", "One group", answer=GroupOutput)
    def get(self, request: Request, group: str) -> Response:
        return answer_detail(GroupOutput(selectors.access_group(actor_of(request), group)).data)

    @operation("deleteGroup", "Archive a group; 409 while work of it is live", answer=GONE, status=204)
    def delete(self, request: Request, group: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_group(actor, group, Action.MANAGE_GROUPS)
        offboarding.retire_group(group=found, now=now(), actor=actor)
        return Response(status=204)


class Members(ApiView):
    @operation("listMembers", "Members of a group, by name", query=PageQuery, answer=listing(MemberOutput))
    def get(self, request: Request, group: str) -> Response:
        found = selectors.access_group(actor_of(request), group)
        members = selectors.list_members(found.pk)
        return answer_page(request, members, ("user__username",), read_query(request, PageQuery), MemberOutput)

    @operation("setMember", "Add a member, or change the role", body=MemberInput, answer=MemberOutput)
    @idempotent
    def post(self, request: Request, group: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_group(actor, group, Action.MANAGE_MEMBERS)
        value = read_body(request, MemberInput)
        role = ROLES_BY_NAME[value["role"]]
        member = services.set_member(group=found, username=value["username"], role=role, now=now(), actor=actor)
        return Response(MemberOutput(member).data)


class MemberDetail(ApiView):
    @operation("removeMember", "Take a member out of the group", answer=GONE, status=204)
    def delete(self, request: Request, group: str, username: str) -> Response:
        actor = actor_of(request)
        found, user = selectors.access_member(actor, group, username, Action.MANAGE_MEMBERS)
        services.remove_member(group=found, user=user, now=now(), actor=actor)
        return Response(status=204)


class GroupQuotas(ApiView):
    @operation(
        "getGroupQuotas", "Limits and use of a group: over all pools, then for each pool", answer=QuotaOutput(many=True)
    )
    def get(self, request: Request, group: str) -> Response:
        found = selectors.access_group(actor_of(request), group, Action.VIEW_QUOTAS)
        return answer_detail(QuotaOutput(quota_selectors.quota_rows(found), many=True).data)

    @operation(
        "setGroupQuotas",
        "Set the named numbers of the named pools; all others stay",
        body=QuotaInput(many=True),
        answer=QuotaOutput(many=True),
    )
    @transaction.atomic
    def put(self, request: Request, group: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_group(actor, group, Action.SET_GROUP_QUOTAS)
        changes = _read_changes(request, actor)
        require_match(request, lambda: QuotaOutput(quota_selectors.quota_rows(found), many=True).data)
        quota_services.set_quotas(group=found, user=None, changes=changes, now=now(), actor=actor)
        return answer_detail(QuotaOutput(quota_selectors.quota_rows(found), many=True).data)


class UserQuotas(ApiView):
    @operation("getUserQuotas", "Limits and use of one member of a group", answer=QuotaOutput(many=True))
    def get(self, request: Request, group: str, username: str) -> Response:
        found, user = selectors.access_member(actor_of(request), group, username, Action.VIEW_QUOTAS)
        return answer_detail(QuotaOutput(quota_selectors.user_quota_rows(found, user), many=True).data)

    @operation(
        "setUserQuotas",
        "Set the named numbers of one member; all others stay",
        body=QuotaInput(many=True),
        answer=QuotaOutput(many=True),
    )
    @transaction.atomic
    def put(self, request: Request, group: str, username: str) -> Response:
        actor = actor_of(request)
        found, user = selectors.access_member(actor, group, username, Action.SET_USER_QUOTAS)
        changes = _read_changes(request, actor)
        require_match(request, lambda: QuotaOutput(quota_selectors.user_quota_rows(found, user), many=True).data)
        quota_services.set_quotas(group=found, user=user, changes=changes, now=now(), actor=actor)
        return answer_detail(QuotaOutput(quota_selectors.user_quota_rows(found, user), many=True).data)


def _read_changes(request: Request, actor: Actor) -> list[quota_services.QuotaChange]:
    """The body as changes. Names a pool that is unknown or there twice."""
    values: list[dict[str, Any]] = read_body(request, QuotaInput, many=True)
    pools = {pool.name: pool for pool in list_pools(actor)}
    errors = []
    for index, value in enumerate(values):
        name = value["pool"]
        if name is not None and name not in pools:
            errors.append(FieldError(f"[{index}].pool", "unknown_pool", "There is no such pool."))
        if any(other["pool"] == name for other in values[:index]):
            errors.append(FieldError(f"[{index}].pool", "duplicate_key", "This pool is there twice."))
    if errors:
        raise InvalidInputError("The quotas cannot be set.", errors=errors)
    return [
        quota_services.QuotaChange(pool=value["pool"] and pools[value["pool"]], **numbers_of(value)) for value in values
    ]
