"""Reads of images, profiles and folders. What belongs to another group is missing."""

from django.db.models import Q, QuerySet

from aistation.catalog.models import Folder, Image, Profile
from aistation.core.errors import NotFoundError
from aistation.tenancy.policy import Action, Actor, allows
from aistation.tenancy.selectors import require, visible_group_ids

HOME = "home"
"""Name of the personal folder that everybody has."""
SHARED = "shared"
"""Name of the folder that every group has."""


def list_images(actor: Actor, kind: str | None = None) -> QuerySet[Image]:
    """Images for everyone and those of the person's groups, by name; with ``kind`` only those fit for it."""
    require(actor, Action.VIEW_CATALOG)
    images = Image.objects.filter(archived_at=None).select_related("group").order_by("name")
    visible = visible_group_ids(actor)
    if visible is not None:
        images = images.filter(Q(group=None) | Q(group_id__in=visible))
    return images if kind is None else images.filter(kinds__contains=[kind])


def access_image(actor: Actor, name: str, action: Action = Action.VIEW_CATALOG) -> Image:
    """The image, when the person may do ``action`` to it."""
    image = list_images(actor).filter(name=name).first()
    if image is None:
        raise NotFoundError
    require(actor, action)
    return image


def find_image(group_id: int, name: str, kind: str) -> Image | None:
    """The image that a workload of this group may run: one for everyone, or its own. None: there is none."""
    images = Image.objects.filter(name=name, archived_at=None, kinds__contains=[kind])
    return images.filter(Q(group=None) | Q(group_id=group_id)).first()


def list_profiles(actor: Actor, kind: str | None = None) -> QuerySet[Profile]:
    require(actor, Action.VIEW_CATALOG)
    profiles = Profile.objects.select_related("pool").order_by("name")
    return profiles if kind is None else profiles.filter(kinds__contains=[kind])


def access_profile(actor: Actor, name: str, action: Action = Action.VIEW_CATALOG) -> Profile:
    profile = list_profiles(actor).filter(name=name).first()
    if profile is None:
        raise NotFoundError
    require(actor, action)
    return profile


def list_folders(actor: Actor) -> QuerySet[Folder]:
    """The person's own folders and those of the person's groups, oldest first."""
    folders = Folder.objects.select_related("user", "group").order_by("pk")
    own = Q(user_id=actor.user_id)
    visible = visible_group_ids(actor)
    if visible is None:
        return folders.filter(own | Q(group__isnull=False, group__archived_at=None))
    return folders.filter(own | Q(group_id__in=visible)) if visible else folders.filter(own)


def access_folder(actor: Actor, uid: str) -> Folder:
    """A folder of the person or of a group whose things the person may see."""
    folder = Folder.objects.select_related("user", "group").filter(uid=uid).first()
    if folder is None or not may_see_folder(actor, folder):
        raise NotFoundError
    return folder


def may_see_folder(actor: Actor, folder: Folder) -> bool:
    """Nobody sees another person's folder, not even a platform admin."""
    if folder.group_id is None:
        return folder.user_id == actor.user_id
    return allows(actor, Action.VIEW_FOLDER, group_id=folder.group_id)


def mountable_folders(user_id: int, group_id: int) -> QuerySet[Folder]:
    """Folders that a workload of this person in this group may mount: own ones, and the group's."""
    return Folder.objects.filter(Q(user_id=user_id) | Q(group_id=group_id)).order_by("pk")
