"""Quotas: all groups in one grid, and all numbers of one group and its people on one page."""

from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods

from aistation.core.clock import now
from aistation.core.errors import ConflictError
from aistation.fleet.selectors import list_pools
from aistation.portal.forms.quotas import FormRow, QuotaForm
from aistation.portal.pages import Request, show, signed_in
from aistation.portal.quota_table import COLUMNS, WEIGHT, grid, places_of
from aistation.quotas.selectors import COUNT_NAMES, GUARANTEED_NAMES, QUANTITY_NAMES, group_rows
from aistation.quotas.services import QuotaChange, set_quotas_of_many
from aistation.tenancy.policy import Action, Actor
from aistation.tenancy.selectors import access_group, list_groups

if TYPE_CHECKING:
    from aistation.fleet.models import Pool
    from aistation.tenancy.models import Group


@signed_in
@require_GET
def quotas(request: Request) -> HttpResponse:
    """The groups that the person may see x the pools: cards."""
    actor = request.actor
    pools = [pool.name for pool in list_pools(actor)]
    groups = [group.name for group in list_groups(actor)]
    context = {"pools": pools, "rows": grid(groups, pools, group_rows(actor)), "topics": "cluster"}
    return show(request, "quotas/quota_grid.html", context, partial="quotas/_quota_grid.html")


@signed_in
@require_http_methods(["GET", "POST"])
def group_quotas(request: Request, name: str) -> HttpResponse:
    """GET shows, POST sets the scopes whose numbers were changed: all of them, or none when one is wrong."""
    actor = request.actor
    group = access_group(actor, name, Action.VIEW_QUOTAS)
    form = QuotaForm(places_of(actor, group), request.POST if request.method == "POST" else None)
    if request.method == "POST" and not form.error_count:
        changed = form.changed()
        try:
            _write(actor, group, changed)
        except ConflictError:  # between reading and writing: read again, the rows then say what is stored
            form = QuotaForm(places_of(actor, group), request.POST)
        else:
            _say(request, len(changed))
            return HttpResponseRedirect(reverse("portal:group_quotas", args=[name]), status=303)
    context = {"group": group, "form": form, "columns": COLUMNS, "topics": f"group.{group.pk}"}
    return show(request, "quotas/group_quotas.html", context)


def _write(actor: Actor, group: "Group", rows: list[FormRow]) -> None:
    pools = {pool.name: pool for pool in list_pools(actor)}
    changes: dict[int | None, list[QuotaChange]] = {}
    for row in rows:
        pool = row.entry.row.pool
        change = _change(row, None if pool is None else pools[pool])
        changes.setdefault(row.entry.user_id, []).append(change)
    set_quotas_of_many(group=group, changes=changes, now=now(), actor=actor)


def _change(row: FormRow, pool: "Pool | None") -> QuotaChange:
    typed = row.typed
    return QuotaChange(
        pool=pool,
        limits={name: typed[f"{name}_limit"] for name in QUANTITY_NAMES},
        guaranteed={name: typed[f"{name}_guaranteed"] or 0 for name in GUARANTEED_NAMES},
        counts={name: typed[name] for name in COUNT_NAMES},
        weight=typed[WEIGHT] if row.entry.has_weight else None,
        seen=row.entry.numbers,
    )


def _say(request: Request, number: int) -> None:
    if number:
        text = ngettext("%(number)s row is changed.", "%(number)s rows are changed.", number)
        messages.success(request, text % {"number": number})
    else:
        messages.info(request, _("Nothing was changed."))
