"""The catalogue: images and profiles."""

import shlex
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from aistation.catalog import services
from aistation.catalog.selectors import access_image, access_profile, list_images, list_profiles
from aistation.core.clock import now
from aistation.fleet.selectors import access_pool, list_pools
from aistation.portal.filling import filled_in
from aistation.portal.forms.catalog import ImageForm, ProfileForm
from aistation.portal.pages import Request, act, ask_first, show, signed_in
from aistation.tenancy.policy import Action
from aistation.tenancy.selectors import access_group, list_groups, require

_PROFILE_NAMES = {"cpu_milli": "cpu", "memory_mib": "memory", "gpu_memory_mib": "gpu_memory"}


@signed_in
@require_GET
def images(request: Request) -> HttpResponse:
    require(request.actor, Action.MANAGE_CATALOG)
    rows = [(image, shlex.join(image.command)) for image in list_images(request.actor)]
    return show(request, "images/image_list.html", {"rows": rows})


@signed_in
@require_http_methods(["GET", "POST"])
def new_image(request: Request) -> HttpResponse:
    actor = request.actor
    require(actor, Action.MANAGE_CATALOG)
    groups = [group.name for group in list_groups(actor)]
    form = ImageForm(groups, request.POST or None, is_new=True)

    def create(given: Any) -> None:
        group = access_group(actor, given["group"]) if given["group"] else None
        services.create_image(**{**given, "group": group}, now=now(), actor=actor)

    if request.method == "POST":
        made = filled_in(request, form, create, done=_("The image is offered now."), to=reverse("portal:images"))
        if made:
            return made
    return show(request, "images/image_form.html", {"form": form})


@signed_in
@require_http_methods(["GET", "POST"])
def image(request: Request, name: str) -> HttpResponse:
    actor = request.actor
    found = access_image(actor, name, Action.MANAGE_CATALOG)
    present = {field: getattr(found, field) for field in services.IMAGE_FIELDS}
    present["command"] = shlex.join(found.command)
    form = ImageForm([], request.POST or None, initial=present, is_new=False)
    if request.method == "POST":
        changed = filled_in(
            request,
            form,
            lambda given: services.change_image(image_id=found.pk, changes=given, now=now(), actor=actor),
            done=_("The image is changed. What starts from now on uses it."),
            to=reverse("portal:images"),
        )
        if changed:
            return changed
    return show(request, "images/image_form.html", {"form": form, "image": found})


@signed_in
@require_POST
def archive(request: Request, name: str) -> HttpResponse:
    actor = request.actor
    found = access_image(actor, name, Action.MANAGE_CATALOG)
    back = reverse("portal:images")
    question = _("Archive %(name)s? It is offered no longer; what uses it goes on.") % {"name": name}
    if page := ask_first(request, question, _("Archive"), back=back):
        return page
    return act(
        request,
        lambda: services.archive_image(image_id=found.pk, now=now(), actor=actor),
        done=_("%(name)s is archived.") % {"name": name},
        to=back,
    )


@signed_in
@require_GET
def profiles(request: Request) -> HttpResponse:
    require(request.actor, Action.MANAGE_CATALOG)
    return show(request, "images/profile_list.html", {"profiles": list_profiles(request.actor)})


@signed_in
@require_http_methods(["GET", "POST"])
def new_profile(request: Request) -> HttpResponse:
    actor = request.actor
    require(actor, Action.MANAGE_CATALOG)
    form = ProfileForm([pool.name for pool in list_pools(actor)], request.POST or None)

    def create(given: Any) -> None:
        services.create_profile(
            name=given["name"],
            description=given["description"],
            kinds=given["kinds"],
            pool=access_pool(actor, given["pool"]) if given["pool"] else None,
            resources=form.resources(),
            now=now(),
            actor=actor,
        )

    if request.method == "POST":
        to = reverse("portal:profiles")
        made = filled_in(request, form, create, done=_("The profile is offered now."), to=to, names=_PROFILE_NAMES)
        if made:
            return made
    return show(request, "images/profile_form.html", {"form": form})


@signed_in
@require_POST
def delete_profile(request: Request, name: str) -> HttpResponse:
    actor = request.actor
    found = access_profile(actor, name, Action.MANAGE_CATALOG)
    back = reverse("portal:profiles")
    question = _("Delete profile %(name)s? What was started with it keeps its resources.") % {"name": name}
    if page := ask_first(request, question, _("Delete"), back=back):
        return page
    return act(
        request,
        lambda: services.delete_profile(profile_id=found.pk, now=now(), actor=actor),
        done=_("%(name)s is deleted.") % {"name": name},
        to=back,
    )
