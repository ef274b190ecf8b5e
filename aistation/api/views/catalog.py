"""Images, profiles, folders."""

from typing import TYPE_CHECKING

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from aistation.api.authentication import actor_of
from aistation.api.fields import Choice, Text
from aistation.api.idempotency import idempotent
from aistation.api.pagination import PageQuery
from aistation.api.serializers.catalog import (
    FolderInput,
    FolderOutput,
    ImageChangeInput,
    ImageInput,
    ImageOutput,
    ProfileInput,
    ProfileOutput,
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
    require_match,
)
from aistation.catalog import selectors, services
from aistation.core.clock import now
from aistation.core.errors import FieldError, InvalidInputError, NotFoundError
from aistation.fleet.selectors import access_pool
from aistation.tenancy.policy import Action, Actor
from aistation.tenancy.selectors import access_group, list_groups, require

if TYPE_CHECKING:
    from aistation.fleet.models import Pool
    from aistation.tenancy.models import Group


class KindQuery(PageQuery):
    kind = Choice(services.KINDS, required=False)


class Images(ApiView):
    @operation("listImages", "Images that you may use, by name", query=KindQuery, answer=listing(ImageOutput))
    def get(self, request: Request) -> Response:
        query = read_query(request, KindQuery)
        images = selectors.list_images(actor_of(request), query.get("kind"))
        return answer_page(request, images, ("name",), query, ImageOutput)

    @operation(
        "createImage", "Offer an image, to everyone or to one group", body=ImageInput, answer=ImageOutput, status=201
    )
    @idempotent
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        require(actor, Action.MANAGE_CATALOG)
        value = read_body(request, ImageInput)
        group = _named_group(actor, value.pop("group"))
        image = services.create_image(**value, group=group, now=now(), actor=actor)
        return answer_detail(ImageOutput(image).data, 201)


class ImageDetail(ApiView):
    @operation("getImage", "One image", answer=ImageOutput)
    def get(self, request: Request, image: str) -> Response:
        return answer_detail(ImageOutput(selectors.access_image(actor_of(request), image)).data)

    @operation(
        "changeImage", "Change an image; work that exists is left alone", body=ImageChangeInput, answer=ImageOutput
    )
    @transaction.atomic
    def patch(self, request: Request, image: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_image(actor, image, Action.MANAGE_CATALOG)
        changes = read_body(request, ImageChangeInput)
        require_match(request, lambda: ImageOutput(selectors.access_image(actor, image)).data)
        changed = services.change_image(image_id=found.pk, changes=changes, now=now(), actor=actor)
        return answer_detail(ImageOutput(changed).data)

    @operation("archiveImage", "Offer an image no longer", answer=GONE, status=204)
    def delete(self, request: Request, image: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_image(actor, image, Action.MANAGE_CATALOG)
        services.archive_image(image_id=found.pk, now=now(), actor=actor)
        return Response(status=204)


class Profiles(ApiView):
    @operation("listProfiles", "Bundles of resources, by name", query=KindQuery, answer=listing(ProfileOutput))
    def get(self, request: Request) -> Response:
        query = read_query(request, KindQuery)
        profiles = selectors.list_profiles(actor_of(request), query.get("kind"))
        return answer_page(request, profiles, ("name",), query, ProfileOutput)

    @operation("createProfile", "Offer a bundle of resources", body=ProfileInput, answer=ProfileOutput, status=201)
    @idempotent
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        require(actor, Action.MANAGE_CATALOG)
        value = read_body(request, ProfileInput)
        pool = _named_pool(actor, value.pop("pool"))
        profile = services.create_profile(**value, pool=pool, now=now(), actor=actor)
        return answer_detail(ProfileOutput(profile).data, 201)


class ProfileDetail(ApiView):
    @operation("getProfile", "One bundle of resources", answer=ProfileOutput)
    def get(self, request: Request, profile: str) -> Response:
        return answer_detail(ProfileOutput(selectors.access_profile(actor_of(request), profile)).data)

    @operation(
        "deleteProfile", "Offer a bundle no longer; what was started with it is left alone", answer=GONE, status=204
    )
    def delete(self, request: Request, profile: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_profile(actor, profile, Action.MANAGE_CATALOG)
        services.delete_profile(profile_id=found.pk, now=now(), actor=actor)
        return Response(status=204)


class FolderQuery(PageQuery):
    group = Text(63, required=False)


class Folders(ApiView):
    @operation(
        "listFolders",
        "Your folders and those of your groups, oldest first",
        query=FolderQuery,
        answer=listing(FolderOutput),
    )
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        query = read_query(request, FolderQuery)
        folders = selectors.list_folders(actor)
        if "group" in query:
            folders = folders.filter(group__name=query["group"])
        return answer_page(request, folders, ("id",), query, FolderOutput)

    @operation(
        "createFolder",
        "Create a folder: your own, or shared by a group",
        body=FolderInput,
        answer=FolderOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        value = read_body(request, FolderInput)
        group = _named_group(actor, value["group"])
        if group is not None:
            access_group(actor, group.name, Action.CREATE_FOLDER)
        else:
            require(actor, Action.CREATE_OWN_FOLDER)
        owner = {"user_id": actor.user_id} if group is None else {}
        folder = services.create_folder(name=value["name"], group=group, now=now(), actor=actor, **owner)
        return answer_detail(FolderOutput(selectors.access_folder(actor, folder.uid)).data, 201)


class FolderDetail(ApiView):
    @operation("getFolder", "One folder", answer=FolderOutput)
    def get(self, request: Request, folder: str) -> Response:
        return answer_detail(FolderOutput(selectors.access_folder(actor_of(request), folder)).data)


def _named_group(actor: Actor, name: str | None) -> "Group | None":
    if name is None:
        return None
    group = list_groups(actor).filter(name=name).first()
    if group is None:
        fault = FieldError("group", "unknown_group", "There is no such group, or you are not in it.")
        raise InvalidInputError("The request has mistakes.", errors=[fault])
    return group


def _named_pool(actor: Actor, name: str | None) -> "Pool | None":
    try:
        return None if name is None else access_pool(actor, name)
    except NotFoundError as error:
        fault = FieldError("pool", "unknown_pool", "There is no such pool.")
        raise InvalidInputError("The request has mistakes.", errors=[fault]) from error
