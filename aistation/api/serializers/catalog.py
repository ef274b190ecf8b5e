"""Images, profiles, folders."""

from typing import Any

from rest_framework import serializers

from aistation.api.fields import Choice, Input, Integer, Output, Text
from aistation.api.serializers.workloads import ResourcesInput, ResourcesOutput
from aistation.catalog.services import KINDS


def _kinds(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=Choice(KINDS), allow_empty=False, max_length=len(KINDS), **options)


class ImageChangeInput(Input):
    reference = Text(255, required=False, help_text="What the container engine is asked for: registry/repository:tag.")
    description = Text(500, allow_blank=True, required=False)
    kinds = _kinds(required=False)
    port = Integer(1, 65535, allow_null=True, required=False, help_text="Where an environment answers HTTP.")
    command = serializers.ListField(child=Text(4096, allow_blank=True), required=False, max_length=256)


class ImageInput(ImageChangeInput):
    name = Text(63)
    reference = Text(255, help_text="What the container engine is asked for: registry/repository:tag.")
    kinds = _kinds()
    group = Text(63, allow_null=True, default=None, help_text="null: for everyone.")


class ImageOutput(Output):
    name = serializers.CharField()
    reference = serializers.CharField()
    description = serializers.CharField()
    kinds = serializers.ListField(child=serializers.ChoiceField(KINDS))
    port = serializers.IntegerField(allow_null=True)
    command = serializers.ListField(child=serializers.CharField())
    group = serializers.CharField(source="group.name", allow_null=True, default=None)
    created_at = serializers.DateTimeField()


class ProfileInput(Input):
    name = Text(63)
    description = Text(500, allow_blank=True, default="")
    kinds = _kinds()
    pool = Text(63, allow_null=True, default=None)
    resources = ResourcesInput()


class ProfileOutput(Output):
    name = serializers.CharField()
    description = serializers.CharField()
    kinds = serializers.ListField(child=serializers.ChoiceField(KINDS))
    pool = serializers.CharField(source="pool.name", allow_null=True, default=None)
    resources = ResourcesOutput(source="*")
    created_at = serializers.DateTimeField()


class FolderInput(Input):
    name = Text(63)
    group = Text(63, allow_null=True, default=None, help_text="null: your own.")


class FolderOutput(Output):
    id = serializers.CharField(source="uid")
    name = serializers.CharField()
    user = serializers.CharField(source="user.username", allow_null=True, default=None)
    group = serializers.CharField(source="group.name", allow_null=True, default=None)
    created_at = serializers.DateTimeField()
