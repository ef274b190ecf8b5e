"""People: list, create, deactivate, give and take rights, set a password."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from aistation.core.clock import now
from aistation.portal.filling import filled_in
from aistation.portal.forms.people import NewPasswordForm, UserForm
from aistation.portal.pages import Request, act, ask_first, show, signed_in
from aistation.tenancy import services
from aistation.tenancy.policy import ROLE_NAMES, Action, Role
from aistation.tenancy.selectors import access_user, list_users, require
from aistation.workloads.offboarding import retire_user

if TYPE_CHECKING:
    from aistation.tenancy.models import User

PAGE: Final = 100


@signed_in
@require_GET
def users(request: Request) -> HttpResponse:
    """By name; ``after`` a name is the next page, ``q`` a part of a name."""
    actor = request.actor
    text, after = (request.GET.get(key, "").replace("\x00", "")[:63].strip() for key in ("q", "after"))
    rows = list_users(actor).prefetch_related("memberships__group")
    if text:
        rows = rows.filter(username__icontains=text)
    found = list(rows.filter(username__gt=after)[: PAGE + 1])
    people = [(user, _groups(user)) for user in found[:PAGE]]
    more = found[PAGE - 1].username if len(found) > PAGE else ""
    context = {"people": people, "text": text, "more": more, "is_first": not after}
    return show(request, "users/user_list.html", context)


def _groups(user: "User") -> list[tuple[str, str]]:
    members = [member for member in user.memberships.all() if member.group.archived_at is None]
    return sorted((member.group.name, ROLE_NAMES[Role(member.role)]) for member in members)


@sensitive_post_parameters("password")
@signed_in
@require_http_methods(["GET", "POST"])
def new_user(request: Request) -> HttpResponse:
    actor = request.actor
    require(actor, Action.MANAGE_USERS)
    form = UserForm(request.POST or None)
    if request.method == "POST":
        made = filled_in(
            request,
            form,
            lambda given: services.create_user(**given, now=now(), actor=actor),
            done=_("The user is created. Add the person to a group, so that work can be submitted."),
            to=reverse("portal:users"),
        )
        if made:
            return made
    return show(request, "users/user_form.html", {"form": form})


@sensitive_post_parameters("password")
@signed_in
@require_http_methods(["GET", "POST"])
def password(request: Request, name: str) -> HttpResponse:
    actor = request.actor
    user = access_user(actor, name)
    form = NewPasswordForm(request.POST or None)
    if request.method == "POST":
        done = filled_in(
            request,
            form,
            lambda given: services.change_user(user_id=user.pk, password=given["password"], now=now(), actor=actor),
            done=_("%(name)s has a new password; all sessions of %(name)s are signed out.") % {"name": name},
            to=reverse("portal:users"),
        )
        if done:
            return done
    return show(request, "users/password_form.html", {"form": form, "user": user})


@signed_in
@require_POST
def deactivate(request: Request, name: str) -> HttpResponse:
    """Refused while the person has live work: no container is left without an owner."""
    actor = request.actor
    user = access_user(actor, name)
    question = _("Deactivate %(name)s? Sessions and tokens end at once; the history stays.")
    done = _("%(name)s is deactivated.")
    return _change(request, name, lambda: retire_user(user=user, now=now(), actor=actor), question, done)


@signed_in
@require_POST
def reactivate(request: Request, name: str) -> HttpResponse:
    return _set(request, name, question="", done=_("%(name)s may sign in again."), is_active=True)


@signed_in
@require_POST
def promote(request: Request, name: str) -> HttpResponse:
    question = _("Make %(name)s a platform admin? Such a person may see and change everything.")
    return _set(request, name, question=question, done=_("%(name)s is a platform admin."), is_platform_admin=True)


@signed_in
@require_POST
def demote(request: Request, name: str) -> HttpResponse:
    question = _("Take the rights of a platform admin from %(name)s?")
    done = _("%(name)s is no platform admin any more.")
    return _set(request, name, question=question, done=done, is_platform_admin=False)


def _set(request: Request, name: str, *, question: str, done: str, **change: bool) -> HttpResponse:
    actor = request.actor
    user = access_user(actor, name)
    return _change(
        request,
        name,
        lambda: services.change_user(user_id=user.pk, now=now(), actor=actor, **change),  # type: ignore[arg-type]
        question,
        done,
    )


def _change(request: Request, name: str, service: Callable[[], object], question: str, done: str) -> HttpResponse:
    """``question`` empty: nothing ends by it, so nobody is asked."""
    back = reverse("portal:users")
    if question and (page := ask_first(request, question % {"name": name}, _("Yes"), back=back)):
        return page
    return act(request, service, done=done % {"name": name}, to=back)
