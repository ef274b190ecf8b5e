"""Writes of images, profiles and folders: one function, one transaction, one audit event.

Directories on disk are made by the agents; the tables only name them.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, models, transaction

from aistation.audit.services import record
from aistation.catalog.models import Folder, Image, Profile
from aistation.catalog.selectors import HOME, SHARED
from aistation.core.errors import ConflictError, FieldError, InvalidInputError
from aistation.core.ids import new_uid
from aistation.core.validation import name_error
from aistation.fleet.models import Pool
from aistation.tenancy.models import Group, User
from aistation.tenancy.policy import Actor

KINDS: Final = ("environment", "job")
"""What an image or a profile may be offered for."""
IMAGE_FIELDS: Final = ("reference", "description", "kinds", "port", "command")
_REFERENCE: Final = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"  # registry host
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"  # repository
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"  # tag, digest
)


@transaction.atomic
def create_image(  # noqa: PLR0913 - the columns of an image
    *,
    name: str,
    reference: str,
    kinds: Collection[str],
    now: datetime,
    actor: Actor | None,
    description: str = "",
    port: int | None = None,
    command: Sequence[str] = (),
    group: Group | None = None,
) -> Image:
    """Offer an image under a name; to one group, or to everyone (``group`` None).

    Raises InvalidInputError, ConflictError (the name is taken, perhaps by an archived image that old workloads name).
    """
    image = Image(
        name=name,
        reference=reference,
        description=description,
        kinds=sorted(set(kinds)),
        port=port,
        command=list(command),
        group=group,
        created_at=now,
    )
    errors = [error for error in (name_error("name", name), *_image_errors(image)) if error]
    if errors:
        raise InvalidInputError("The image cannot be created.", errors=errors)
    _insert(image, f"The image name {name} is taken.")
    record(actor, now, "image.create", "image", name, group=group.name if group else "", after=_image_values(image))
    return image


@transaction.atomic
def change_image(*, image_id: int, changes: Mapping[str, Any], now: datetime, actor: Actor) -> Image:
    """Set the given ones of `IMAGE_FIELDS`. Workloads that exist keep their command and port; a container that
    starts later is made from the new reference."""
    image = Image.objects.select_for_update(no_key=True, of=("self",)).select_related("group").get(pk=image_id)
    before = _image_values(image)
    for field in IMAGE_FIELDS:
        if field in changes:
            setattr(image, field, changes[field])
    image.kinds = sorted(set(image.kinds))
    errors = _image_errors(image)
    if errors:
        raise InvalidInputError("The image cannot be changed.", errors=errors)
    image.save()
    after = _image_values(image)
    if before != after:
        changed = [key for key in after if before[key] != after[key]]
        record(
            actor,
            now,
            "image.change",
            "image",
            image.name,
            group=image.group.name if image.group else "",
            before={key: before[key] for key in changed},
            after={key: after[key] for key in changed},
        )
    return image


@transaction.atomic
def archive_image(*, image_id: int, now: datetime, actor: Actor) -> None:
    """Offer an image no longer. Workloads that name it go on. Doing it twice changes nothing."""
    if Image.objects.filter(pk=image_id, archived_at=None).update(archived_at=now):
        name = Image.objects.values_list("name", flat=True).get(pk=image_id)
        record(actor, now, "image.archive", "image", name)


@transaction.atomic
def create_profile(  # noqa: PLR0913 - the columns of a profile
    *,
    name: str,
    kinds: Collection[str],
    resources: Mapping[str, Any],
    now: datetime,
    actor: Actor | None,
    description: str = "",
    pool: Pool | None = None,
) -> Profile:
    """Offer a bundle of resources (``cpu_milli``, ``memory_mib``, ``gpus``, ``gpu_slices`` ...) in the forms."""
    errors = [error for error in (name_error("name", name), *_kinds_errors(kinds)) if error]
    if errors:
        raise InvalidInputError("The profile cannot be created.", errors=errors)
    profile = Profile(
        name=name, kinds=sorted(set(kinds)), description=description, pool=pool, created_at=now, **resources
    )
    _insert(profile, f"The profile name {name} is taken.")
    after = {**resources, "kinds": profile.kinds, "pool": pool.name if pool else None}
    record(actor, now, "profile.create", "profile", name, after=after)
    return profile


@transaction.atomic
def delete_profile(*, profile_id: int, now: datetime, actor: Actor) -> None:
    """Offer a profile no longer. What was started with it keeps its resources."""
    profile = Profile.objects.select_for_update().filter(pk=profile_id).first()
    if profile is not None:
        profile.delete()
        record(actor, now, "profile.delete", "profile", profile.name)


@transaction.atomic
def create_folder(
    *, name: str, now: datetime, actor: Actor | None, user_id: int | None = None, group: Group | None = None
) -> Folder:
    """Name a new folder: of a person, or shared by a group. Raises InvalidInputError, ConflictError."""
    error = name_error("name", name)
    if error is None and name == (HOME if group else SHARED):
        error = FieldError("name", "reserved_name", f"The name {name} is kept for another folder.")
    if error:
        raise InvalidInputError("The folder cannot be created.", errors=[error])
    folder = Folder(uid=new_uid("folder"), name=name, user_id=user_id, group=group, created_at=now)
    _insert(folder, f"There is a folder {name} already.")
    record(actor, now, "folder.create", "folder", folder.uid, group=group.name if group else "", after={"name": name})
    return folder


def home_of(user: User | int, now: datetime) -> Folder:
    """The person's own folder, named on first use."""
    user_id = user if isinstance(user, int) else user.pk
    found = Folder.objects.filter(user_id=user_id, name=HOME).first()
    return found or _first_use({"user_id": user_id, "name": HOME}, now)


def shared_of(group: Group, now: datetime) -> Folder:
    """The group's common folder, named on first use."""
    found = Folder.objects.filter(group=group, name=SHARED).first()
    return found or _first_use({"group_id": group.pk, "name": SHARED}, now)


def _first_use(key: dict[str, Any], now: datetime) -> Folder:
    """Two at once get the same row: the unique constraint decides."""
    Folder.objects.bulk_create([Folder(uid=new_uid("folder"), created_at=now, **key)], ignore_conflicts=True)
    return Folder.objects.get(**key)


def _image_errors(image: Image) -> list[FieldError]:
    errors = _kinds_errors(image.kinds)
    if not _REFERENCE.fullmatch(image.reference) or len(image.reference) > 255:
        message = "Name it like registry/repository:tag, at most 255 characters."
        errors.append(FieldError("reference", "bad_reference", message))
    if "environment" in image.kinds and image.port is None:
        message = "An image for environments needs the port at which it answers HTTP."
        errors.append(FieldError("port", "required", message))
    return errors


def _kinds_errors(kinds: Collection[str]) -> list[FieldError]:
    if kinds and set(kinds) <= set(KINDS):
        return []
    return [FieldError("kinds", "unknown_choice", "Name at least one of: " + ", ".join(KINDS) + ".")]


def _image_values(image: Image) -> dict[str, Any]:
    return {field: getattr(image, field) for field in IMAGE_FIELDS}


def _insert(row: models.Model, message: str) -> None:
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise ConflictError(message, errors=[FieldError("name", "taken", message)]) from error
