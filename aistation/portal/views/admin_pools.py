"""Pools: list, create, change, and what is ahead of each."""

from typing import TYPE_CHECKING, Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from aistation.core.clock import now
from aistation.fleet.selectors import access_pool, list_capacity, list_lending, list_pools, list_reserves
from aistation.fleet.services import POOL_FIELDS, change_pool, create_pool
from aistation.portal.filling import filled_in
from aistation.portal.forms.fleet import PoolForm
from aistation.portal.hours import opening_of
from aistation.portal.offer import free_text
from aistation.portal.pages import Request, show, signed_in
from aistation.portal.pool_outlook import outlook_of
from aistation.tenancy.policy import Action, allows
from aistation.tenancy.selectors import require

if TYPE_CHECKING:
    from aistation.fleet.models import LendingRule, Reserve


@signed_in
@require_GET
def pools(request: Request) -> HttpResponse:
    actor = request.actor
    require(actor, Action.MANAGE_POOLS)
    capacity = {row.pool: row for row in list_capacity(actor)}
    rows = [(pool, capacity[pool.name], free_text(capacity[pool.name])) for pool in list_pools(actor)]
    context = {"rows": rows, "topics": "cluster"}
    return show(request, "pools/pool_list.html", context, partial="pools/_pool_table.html")


@signed_in
@require_http_methods(["GET", "POST"])
def new_pool(request: Request) -> HttpResponse:
    actor = request.actor
    require(actor, Action.MANAGE_POOLS)
    form = PoolForm(request.POST or None, is_new=True)
    if request.method == "POST":
        made = filled_in(
            request,
            form,
            lambda _given: create_pool(**form.values(), now=now(), actor=actor),
            done=_("The pool is created. Add nodes to it."),
            to=reverse("portal:pools"),
            names={"min_run_s": "min_run"},
        )
        if made:
            return made
    return show(request, "pools/pool_form.html", {"form": form})


@signed_in
@require_http_methods(["GET", "POST"])
def pool(request: Request, name: str) -> HttpResponse:
    """How cards are cut is refused while parts of them are in use; the page says where."""
    actor = request.actor
    found = access_pool(actor, name, Action.MANAGE_POOLS)
    present: dict[str, Any] = {field: getattr(found, field) for field in POOL_FIELDS}
    present["min_run"] = found.min_run_s or ""
    form = PoolForm(request.POST or None, initial=present, is_new=False)
    if request.method == "POST":
        changed = filled_in(
            request,
            form,
            lambda _given: change_pool(pool_id=found.pk, changes=form.values(), now=now(), actor=actor),
            done=_("The pool is changed."),
            to=reverse("portal:pools"),
            names={"min_run_s": "min_run"},
        )
        if changed:
            return changed
    return show(request, "pools/pool_form.html", {"form": form, "pool": found})


@signed_in
@require_GET
def outlook(request: Request, name: str) -> HttpResponse:
    """The next 24 hours of a pool. Everybody reads it; whose work it is only where that may be seen."""
    actor, at = request.actor, now()
    found = access_pool(actor, name)
    rules = [rule for rule in list_lending(actor) if found.pk in (rule.lender_id, rule.borrower_id)]
    hours: list[LendingRule | Reserve] = [
        *rules,
        *(reserve for reserve in list_reserves(actor) if reserve.pool_id == found.pk),
    ]
    capacity = next(row for row in list_capacity(actor) if row.pool == name)
    context = {
        "pool": found,
        "capacity": capacity,
        "free": free_text(capacity),
        "outlook": outlook_of(actor, found, at),
        "hours": [(one, opening_of(one.windows, one.time_zone, at)) for one in hours],
        "may_change": allows(actor, Action.MANAGE_POOLS),
        "topics": "cluster queue",
    }
    return show(request, "pools/pool_outlook.html", context, partial="pools/_pool_outlook.html")
