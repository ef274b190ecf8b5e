"""Jobs: list, submit, inspect, cancel, hold, release."""

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from aistation.core.clock import now
from aistation.core.errors import DomainError
from aistation.fleet.selectors import list_pools
from aistation.jobs.services import submit_job
from aistation.portal.detail import detail_of
from aistation.portal.forms.workloads import JobForm, job_again
from aistation.portal.listing import Filters, page_of, state_choices, topics_of
from aistation.portal.offer import offer_of
from aistation.portal.pages import Request, act, ask_first, show, signed_in
from aistation.portal.services import new_form_token, send_once
from aistation.portal.views.answers import answer_to
from aistation.tenancy.policy import Action
from aistation.tenancy.selectors import list_groups
from aistation.workloads import services
from aistation.workloads.lifecycle import Kind, Reason
from aistation.workloads.selectors import access_workload


@signed_in
@require_GET
def jobs(request: Request) -> HttpResponse:
    actor, filters = request.actor, Filters.of(request.GET)
    page = page_of(actor, Kind.JOB, filters)
    context = {
        "page": page,
        "filters": filters,
        "states": state_choices(Kind.JOB),
        "groups": [group.name for group in list_groups(actor)],
        "pools": [pool.name for pool in list_pools(actor)],
        "topics": topics_of(actor, page.rows),
    }
    return show(request, "jobs/job_list.html", context, partial="jobs/_job_table.html")


@signed_in
@require_http_methods(["GET", "POST"])
def new_job(request: Request) -> HttpResponse:
    """``?from=<uid>`` starts from an earlier job of one's own groups."""
    actor = request.actor
    offer = offer_of(actor, Kind.JOB)
    if request.method == "GET":
        source = request.GET.get("from", "").replace("\x00", "")
        initial = job_again(access_workload(actor, source, Kind.JOB)) if source else {}
        return _form_page(request, JobForm(offer, initial=initial), new_form_token(), again=source)
    form = JobForm(offer, request.POST)
    token = request.POST.get("form_token", "")
    if form.is_valid():
        instant = now()

        def make() -> str:
            job = submit_job(actor=actor, submission=form.submission(), now=instant)
            return reverse("portal:job", args=[job.uid])

        try:
            url = send_once(user_id=actor.user_id, token=token, now=instant, make=make)
        except DomainError as error:
            form.show_errors(error)
        else:
            messages.success(request, _("The job is submitted."))
            return HttpResponseRedirect(url, status=303)
    return _form_page(request, form, token or new_form_token(), again=request.POST.get("again", ""))


def _form_page(request: Request, form: JobForm, token: str, *, again: str) -> HttpResponse:
    context = {"form": form, "form_token": token, "again": again}
    return show(request, "jobs/job_new.html", context)


@signed_in
@require_POST
def job_answer(request: Request) -> HttpResponse:
    """What would happen to the job as the form has it now. Writes nothing."""
    return answer_to(request, JobForm(offer_of(request.actor, Kind.JOB), request.POST))


@signed_in
@require_GET
def job(request: Request, uid: str) -> HttpResponse:
    found = access_workload(request.actor, uid, Kind.JOB)
    return show(request, "jobs/job.html", {"detail": detail_of(request, found)}, partial="jobs/_job.html")


@signed_in
@require_POST
def cancel(request: Request, uid: str) -> HttpResponse:
    actor = request.actor
    found = access_workload(actor, uid, Kind.JOB, Action.CONTROL_WORKLOAD)
    back = reverse("portal:job", args=[uid])
    question = _("Cancel %(name)s? What it has not saved is lost.") % {"name": found.name}
    if page := ask_first(request, question, _("Cancel job"), back=back):
        return page
    return act(
        request,
        lambda: services.request_stop(workload_id=found.pk, reason=Reason.USER_STOPPED, now=now(), actor=actor),
        done=_("%(name)s is being cancelled.") % {"name": found.name},
        to=back,
    )


@signed_in
@require_POST
def hold(request: Request, uid: str) -> HttpResponse:
    actor = request.actor
    found = access_workload(actor, uid, Kind.JOB, Action.CONTROL_WORKLOAD)
    return act(
        request,
        lambda: services.hold(workload_id=found.pk, now=now(), actor=actor),
        done=_("%(name)s is held; it waits until you release it.") % {"name": found.name},
        to=reverse("portal:job", args=[uid]),
    )


@signed_in
@require_POST
def release(request: Request, uid: str) -> HttpResponse:
    actor = request.actor
    found = access_workload(actor, uid, Kind.JOB, Action.CONTROL_WORKLOAD)
    return act(
        request,
        lambda: services.release(workload_id=found.pk, now=now(), actor=actor),
        done=_("%(name)s is in the queue again.") % {"name": found.name},
        to=reverse("portal:job", args=[uid]),
    )
