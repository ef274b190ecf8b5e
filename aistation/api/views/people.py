"""Tokens, the caller, users."""

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from aistation.api.authentication import actor_of
from aistation.api.idempotency import idempotent, idempotent_secret
from aistation.api.pagination import PageQuery
from aistation.api.serializers.tenancy import (
    MeOutput,
    NewTokenOutput,
    TokenInput,
    TokenOutput,
    UserChangeInput,
    UserInput,
    UserOutput,
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
)
from aistation.core.clock import now
from aistation.tenancy import selectors, services
from aistation.tenancy.policy import ROLE_NAMES, Action, Role, Scope
from aistation.workloads import offboarding


class Tokens(ApiView):
    @operation(
        "listTokens", "Your tokens that are not revoked, newest first", query=PageQuery, answer=listing(TokenOutput)
    )
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        selectors.require(actor, Action.MANAGE_OWN_TOKENS)
        query = read_query(request, PageQuery)
        return answer_page(request, selectors.list_tokens(actor.user_id), ("-id",), query, TokenOutput)

    @operation(
        "createToken", "Make a token; its secret is shown once", body=TokenInput, answer=NewTokenOutput, status=201
    )
    @idempotent_secret
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        selectors.require(actor, Action.MANAGE_OWN_TOKENS)
        limit_rate(actor, "token", 30)
        value = read_body(request, TokenInput)
        made = services.create_token(
            user_id=actor.user_id,
            name=value["name"],
            now=now(),
            expires_in_s=value["expires_in_s"],
            longest_s=settings.TOKEN_MAX_LIFETIME_S,
            actor=actor,
            scopes=None if value["scopes"] is None else {Scope(scope) for scope in value["scopes"]},
        )
        return Response({**TokenOutput(made.token).data, "token": made.secret}, status=201)


class TokenDetail(ApiView):
    @operation("revokeToken", "End one of your tokens at once", answer=GONE, status=204)
    def delete(self, request: Request, token_id: int) -> Response:
        actor = actor_of(request)
        selectors.require(actor, Action.MANAGE_OWN_TOKENS)
        services.revoke_token(user_id=actor.user_id, token_id=token_id, now=now(), actor=actor)
        return Response(status=204)


class Me(ApiView):
    @operation("getMe", "Who you are, your groups and roles", answer=MeOutput)
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        user = selectors.get_user(actor.user_id)
        roles = selectors.groups_of(actor.user_id)
        groups = [{"name": name, "role": ROLE_NAMES[Role(role)]} for name, role in roles.items()]
        scopes = None if actor.scopes is None else sorted(actor.scopes)
        shown = {
            "username": user.username,
            "display_name": user.display_name,
            "email": user.email,
            "is_platform_admin": user.is_platform_admin,
            "groups": groups,
            "scopes": scopes,
        }
        return Response(MeOutput(shown).data)


class Users(ApiView):
    @operation("listUsers", "All users, by name", query=PageQuery, answer=listing(UserOutput))
    def get(self, request: Request) -> Response:
        users = selectors.list_users(actor_of(request))
        return answer_page(request, users, ("username",), read_query(request, PageQuery), UserOutput)

    @operation("createUser", "Create a user", body=UserInput, answer=UserOutput, status=201)
    @idempotent
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        selectors.require(actor, Action.MANAGE_USERS)
        user = services.create_user(**read_body(request, UserInput), now=now(), actor=actor)
        return answer_detail(UserOutput(user).data, 201)


class UserDetail(ApiView):
    @operation("getUser", "One user", answer=UserOutput)
    def get(self, request: Request, username: str) -> Response:
        return answer_detail(UserOutput(selectors.access_user(actor_of(request), username)).data)

    @operation("changeUser", "Set a password, deactivate, make platform admin", body=UserChangeInput, answer=UserOutput)
    def patch(self, request: Request, username: str) -> Response:
        actor = actor_of(request)
        user = selectors.access_user(actor, username)
        changes = read_body(request, UserChangeInput)
        user = services.change_user(user_id=user.pk, now=now(), actor=actor, **changes)
        return answer_detail(UserOutput(user).data)

    @operation("deleteUser", "Deactivate a user for good; 409 while work of theirs is live", answer=GONE, status=204)
    def delete(self, request: Request, username: str) -> Response:
        actor = actor_of(request)
        user = selectors.access_user(actor, username)
        offboarding.retire_user(user=user, now=now(), actor=actor)
        return Response(status=204)
