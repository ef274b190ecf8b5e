"""What if: a simulated week of the present fleet, as it is and with one lending rule changed."""

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from aistation.core.clock import now
from aistation.portal.forms.lending import typed, with_preset
from aistation.portal.forms.whatif import WhatIfForm
from aistation.portal.hours import day_choices
from aistation.portal.pages import Request, is_partial, show, signed_in
from aistation.portal.whatif_runs import Run, latest_run, start_run
from aistation.portal.whatif_table import AFTER, BEFORE, lines_of, week_of
from aistation.scheduling.whatif import Fleet, present_fleet, scenario_of, zone_of
from scheduler.model import Kind
from scheduler.simulator.scenario import ScenarioError


@signed_in
@require_http_methods(["GET", "POST"])
def whatif(request: Request) -> HttpResponse:
    """POST starts a run, or adds a row to the windows. GET shows the form and the person's last run."""
    user_id, fleet = request.actor.user_id, present_fleet(request.actor)
    run = latest_run(user_id)
    if request.method == "GET":
        if is_partial(request):
            return show(request, "whatif/whatif.html", _context(None, fleet, run), partial="whatif/_run.html")
        return _page(request, _form(fleet, initial=_initial(fleet, run)), fleet, run)
    if wanted := request.POST.get("rows", ""):
        start = typed(request.POST, _form(fleet).fields)
        start["windows"] = with_preset(start["windows"], wanted)
        context = _context(_form(fleet, initial=start), fleet, run)
        return show(request, "whatif/whatif.html", context, partial="lending/_windows.html")
    form = _form(fleet, request.POST)
    if form.is_valid() and _start(request, form, fleet, user_id):
        return HttpResponseRedirect(reverse("portal:whatif"), status=303)
    return _page(request, form, fleet, run)


def _start(request: Request, form: WhatIfForm, fleet: Fleet, user_id: int) -> bool:
    at, change = now(), form.change()
    try:
        scenarios = {BEFORE: scenario_of(fleet, form.load(), None, at)}
        if change is not None:
            scenarios[AFTER] = scenario_of(fleet, form.load(), change, at)
    except ScenarioError as error:
        form.add_error(None, _("This fleet cannot be simulated: %(why)s") % {"why": error})
        return False
    if not start_run(user_id, scenarios, typed(request.POST, form.fields), at):
        form.add_error(None, _("A simulation of yours runs, or too many of others. Try again in a minute."))
        return False
    return True


def _form(fleet: Fleet, *args: Any, **rest: Any) -> WhatIfForm:
    names, jobs, environments = (
        [pool.id for pool in fleet.pools if kind is None or kind in pool.kinds]
        for kind in (None, Kind.JOB, Kind.ENVIRONMENT)
    )
    return WhatIfForm(names, jobs, environments, *args, **rest)


def _initial(fleet: Fleet, run: Run | None) -> dict[str, Any]:
    """What was typed last; at first the load of a usual site."""
    if run is not None:
        return dict(run.typed)
    jobs = [pool.id for pool in fleet.pools if Kind.JOB in pool.kinds]
    environments = [pool.id for pool in fleet.pools if Kind.ENVIRONMENT in pool.kinds]
    only_jobs = [pool.id for pool in fleet.pools if pool.kinds == {Kind.JOB}]
    return {
        "job_pool": next(iter(only_jobs or jobs), ""),
        "environment_pool": next(iter(environments), ""),
        "environments": sum(fleet.members.values()),
    }


def _page(request: Request, form: WhatIfForm, fleet: Fleet, run: Run | None) -> HttpResponse:
    return show(request, "whatif/whatif.html", _context(form, fleet, run))


def _context(form: WhatIfForm | None, fleet: Fleet, run: Run | None) -> dict[str, Any]:
    is_ready = any(node.devices for node in fleet.nodes) and bool(fleet.members)
    context: dict[str, Any] = {
        "form": form,
        "run": run,
        "zone": zone_of(fleet),
        "days": day_choices(),
        "is_ready": is_ready,
    }
    if run is not None and run.results:
        context |= {
            "lines": lines_of(run.results),
            "week": week_of(run.results),
            "is_compared": AFTER in run.results,
        }
    return context
