"""Environments: list, create, inspect, start, stop, delete. Opening one is the ingress app's page."""

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from aistation.core.clock import now
from aistation.core.errors import DomainError
from aistation.environments import services
from aistation.fleet.selectors import list_pools
from aistation.portal.detail import detail_of
from aistation.portal.forms.workloads import EnvironmentForm
from aistation.portal.listing import Filters, page_of, state_choices, topics_of
from aistation.portal.offer import offer_of
from aistation.portal.pages import Request, act, ask_first, show, signed_in
from aistation.portal.services import new_form_token, send_once
from aistation.portal.views.answers import answer_to
from aistation.tenancy.policy import Action
from aistation.tenancy.selectors import list_groups
from aistation.workloads.lifecycle import Kind, Reason
from aistation.workloads.selectors import access_workload
from aistation.workloads.services import request_stop


@signed_in
@require_GET
def environments(request: Request) -> HttpResponse:
    actor, filters = request.actor, Filters.of(request.GET)
    page = page_of(actor, Kind.ENVIRONMENT, filters)
    context = {
        "page": page,
        "filters": filters,
        "states": state_choices(Kind.ENVIRONMENT),
        "groups": [group.name for group in list_groups(actor)],
        "pools": [pool.name for pool in list_pools(actor)],
        "topics": topics_of(actor, page.rows),
    }
    partial = "environments/_environment_table.html"
    return show(request, "environments/environment_list.html", context, partial=partial)


@signed_in
@require_http_methods(["GET", "POST"])
def new_environment(request: Request) -> HttpResponse:
    actor = request.actor
    offer = offer_of(actor, Kind.ENVIRONMENT)
    if request.method == "GET":
        initial = {"folders": [("home", "/workspace", "rw")], "image": request.GET.get("image", "")}
        return _form_page(request, EnvironmentForm(offer, initial=initial), new_form_token())
    form = EnvironmentForm(offer, request.POST)
    token = request.POST.get("form_token", "")
    if form.is_valid():
        instant = now()

        def make() -> str:
            made = services.create_environment(actor=actor, submission=form.submission(), now=instant)
            return reverse("portal:environment", args=[made.uid])

        try:
            url = send_once(user_id=actor.user_id, token=token, now=instant, make=make)
        except DomainError as error:
            form.show_errors(error)
        else:
            messages.success(request, _("The environment is asked for."))
            return HttpResponseRedirect(url, status=303)
    return _form_page(request, form, token or new_form_token())


def _form_page(request: Request, form: EnvironmentForm, token: str) -> HttpResponse:
    return show(request, "environments/environment_new.html", {"form": form, "form_token": token})


@signed_in
@require_POST
def environment_answer(request: Request) -> HttpResponse:
    """When the environment that the form describes would start. Writes nothing."""
    return answer_to(request, EnvironmentForm(offer_of(request.actor, Kind.ENVIRONMENT), request.POST))


@signed_in
@require_GET
def environment(request: Request, uid: str) -> HttpResponse:
    """B023: looking at a stopped environment never starts it."""
    found = access_workload(request.actor, uid, Kind.ENVIRONMENT)
    context = {"detail": detail_of(request, found)}
    return show(request, "environments/environment.html", context, partial="environments/_environment.html")


@signed_in
@require_POST
def start(request: Request, uid: str) -> HttpResponse:
    actor = request.actor
    found = access_workload(actor, uid, Kind.ENVIRONMENT, Action.CONTROL_WORKLOAD)
    return act(
        request,
        lambda: services.start_environment(workload_id=found.pk, now=now(), actor=actor),
        done=_("%(name)s is asked for again.") % {"name": found.name},
        to=reverse("portal:environment", args=[uid]),
    )


@signed_in
@require_POST
def stop(request: Request, uid: str) -> HttpResponse:
    actor = request.actor
    found = access_workload(actor, uid, Kind.ENVIRONMENT, Action.CONTROL_WORKLOAD)
    back = reverse("portal:environment", args=[uid])
    question = _("Stop %(name)s? What runs in it ends; files in its folders stay.") % {"name": found.name}
    if page := ask_first(request, question, _("Stop"), back=back):
        return page
    return act(
        request,
        lambda: request_stop(workload_id=found.pk, reason=Reason.USER_STOPPED, now=now(), actor=actor),
        done=_("%(name)s is being stopped.") % {"name": found.name},
        to=back,
    )


@signed_in
@require_POST
def delete(request: Request, uid: str) -> HttpResponse:
    actor = request.actor
    found = access_workload(actor, uid, Kind.ENVIRONMENT, Action.CONTROL_WORKLOAD)
    back = reverse("portal:environment", args=[uid])
    question = _("Delete %(name)s for good? Files in its folders stay, everything else in it is lost.")
    if page := ask_first(request, question % {"name": found.name}, _("Delete"), back=back):
        return page
    return act(
        request,
        lambda: services.delete_environment(workload_id=found.pk, now=now(), actor=actor),
        done=_("%(name)s is deleted.") % {"name": found.name},
        to=reverse("portal:environments"),
    )
