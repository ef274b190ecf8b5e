"""People, groups, tokens."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from aistation.api.fields import Choice, Flag, Input, Integer, Output, Text
from aistation.tenancy.policy import ROLE_NAMES, ROLES_BY_NAME, Role, Scope

ROLES = tuple(ROLES_BY_NAME)
SCOPES = tuple(scope.value for scope in Scope)


class TokenInput(Input):
    name = Text(63)
    expires_in_s = Integer(1, default=30 * 24 * 3600, help_text="At most 90 days.")
    scopes = serializers.ListField(
        child=Choice(SCOPES), allow_null=True, default=None, allow_empty=False, max_length=len(SCOPES),
        help_text="null: all that you may do.",
    )  # fmt: skip


class TokenOutput(Output):
    id = serializers.IntegerField()
    name = serializers.CharField()
    hint = serializers.CharField(help_text="The first characters, to recognise it.")
    scopes = serializers.ListField(child=serializers.ChoiceField(SCOPES), allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True)


class NewTokenOutput(TokenOutput):
    token = serializers.CharField(help_text="The secret. It is shown this once and kept nowhere.")


class GroupRoleOutput(Output):
    name = serializers.CharField()
    role = serializers.ChoiceField(ROLES)


class MeOutput(Output):
    username = serializers.CharField()
    display_name = serializers.CharField()
    email = serializers.CharField()
    is_platform_admin = serializers.BooleanField()
    groups = GroupRoleOutput(many=True)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(SCOPES), allow_null=True, help_text="Of the token in use; null: all."
    )


class UserInput(Input):
    username = Text(63)
    password = Text(256, allow_null=True, default=None, help_text="null: no sign-in with a password.")
    display_name = Text(128, allow_blank=True, default="")
    email = serializers.EmailField(max_length=254, allow_blank=True, default="")
    is_platform_admin = Flag(default=False)


class UserChangeInput(Input):
    password = Text(256, required=False)
    is_active = Flag(required=False)
    is_platform_admin = Flag(required=False)


class UserOutput(Output):
    username = serializers.CharField()
    display_name = serializers.CharField()
    email = serializers.CharField()
    is_active = serializers.BooleanField()
    is_platform_admin = serializers.BooleanField()
    created_at = serializers.DateTimeField()


class GroupInput(Input):
    name = Text(63)
    display_name = Text(128, allow_blank=True, default="")


class GroupOutput(Output):
    name = serializers.CharField()
    display_name = serializers.CharField()
    created_at = serializers.DateTimeField()


class MemberInput(Input):
    username = Text(63)
    role = Choice(ROLES, default="member")


class MemberOutput(Output):
    username = serializers.CharField(source="user.username")
    display_name = serializers.CharField(source="user.display_name")
    role = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()

    @extend_schema_field(serializers.ChoiceField(ROLES))
    def get_role(self, member: Any) -> str:
        return ROLE_NAMES[Role(member.role)]
