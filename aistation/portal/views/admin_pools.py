"""Pools: list, create, change."""

from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from aistation.core.clock import now
from aistation.fleet.selectors import access_pool, list_capacity, list_pools
from aistation.fleet.services import POOL_FIELDS, change_pool, create_pool
from aistation.portal.filling import filled_in
from aistation.portal.forms.fleet import PoolForm
from aistation.portal.offer import free_text
from aistation.portal.pages import Request, show, signed_in
from aistation.tenancy.policy import Action
from aistation.tenancy.selectors import require


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
            lambda given: create_pool(**given, now=now(), actor=actor),
            done=_("The pool is created. Add nodes to it."),
            to=reverse("portal:pools"),
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
    form = PoolForm(request.POST or None, initial=present, is_new=False)
    if request.method == "POST":
        changed = filled_in(
            request,
            form,
            lambda given: change_pool(pool_id=found.pk, changes=given, now=now(), actor=actor),
            done=_("The pool is changed."),
            to=reverse("portal:pools"),
        )
        if changed:
            return changed
    return show(request, "pools/pool_form.html", {"form": form, "pool": found})
