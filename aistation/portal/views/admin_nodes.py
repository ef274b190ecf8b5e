"""Nodes: list, duty, removal, and the command with which a machine joins."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from aistation.core.clock import now
from aistation.core.errors import DomainError
from aistation.fleet.selectors import access_node, access_pool, list_join_tokens, list_nodes, list_pools
from aistation.fleet.services import Duty, create_join_token, remove_node, revoke_join_token, set_duty, set_labels
from aistation.portal.cluster_map import node_badges, node_warnings
from aistation.portal.filling import filled_in
from aistation.portal.forms.errors import add_errors
from aistation.portal.forms.fleet import JoinForm, LabelsForm
from aistation.portal.pages import Request, act, ask_first, show, signed_in
from aistation.tenancy.policy import Action
from aistation.tenancy.selectors import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aistation.fleet.models import Node

_HOUR_S: Final = 3600
_TOKENS_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class Row:
    node: "Node"
    badges: "Sequence[str]"
    warnings: "Sequence[str]"
    cards: int
    usable_cards: int


@signed_in
@require_GET
def nodes(request: Request) -> HttpResponse:
    actor = request.actor
    require(actor, Action.MANAGE_NODES)
    rows = []
    for node in list_nodes(actor):
        cards = list(node.devices.all())
        usable = sum(card.usable for card in cards)
        rows.append(Row(node, node_badges(node), node_warnings(node), len(cards), usable))
    tokens = list_join_tokens(actor).filter(used_at=None, expires_at__gt=now())[:_TOKENS_SHOWN]
    context = {"rows": rows, "tokens": tokens, "topics": "cluster"}
    return show(request, "nodes/node_list.html", context, partial="nodes/_node_table.html")


@sensitive_variables("made")
@signed_in
@require_http_methods(["GET", "POST"])
def join(request: Request) -> HttpResponse:
    """The answer to the POST is a page: the token is shown here and nowhere again."""
    actor = request.actor
    require(actor, Action.MANAGE_NODES)
    pools = [pool.name for pool in list_pools(actor)]
    form = JoinForm(pools, request.POST or None, initial={"pool": request.GET.get("pool", "")})
    if request.method == "GET" or not form.is_valid():
        return show(request, "nodes/node_join.html", {"form": form, "pools": pools})
    try:
        pool = access_pool(actor, form.cleaned_data["pool"])
        made = create_join_token(pool=pool, expires_in_s=form.cleaned_data["hours"] * _HOUR_S, now=now(), actor=actor)
    except DomainError as error:
        add_errors(form, error, {"expires_in_s": "hours"})
        return show(request, "nodes/node_join.html", {"form": form, "pools": pools})
    context = {"form": form, "pools": pools, "secret": made.secret, "token": made.token, "server": settings.PORTAL_URL}
    return show(request, "nodes/node_join.html", context, status=201)


@signed_in
@require_POST
def revoke_token(request: Request, token_id: int) -> HttpResponse:
    actor = request.actor
    require(actor, Action.MANAGE_NODES)
    back = reverse("portal:nodes")
    question = _("Revoke this join token? No machine can join with it any more.")
    if page := ask_first(request, question, _("Revoke"), back=back):
        return page
    return act(
        request,
        lambda: revoke_join_token(token_id=token_id, now=now(), actor=actor),
        done=_("The join token is revoked."),
        to=back,
    )


@signed_in
@require_POST
def cordon(request: Request, name: str) -> HttpResponse:
    question = _("Cordon %(name)s? Nothing new starts there; what runs goes on.")
    return _set_duty(request, name, Duty.CORDONED, question, _("Cordon"))


@signed_in
@require_POST
def drain(request: Request, name: str) -> HttpResponse:
    question = _("Drain %(name)s? Nothing new starts there, so that it becomes empty; what runs goes on until its end.")
    return _set_duty(request, name, Duty.DRAINING, question, _("Drain"))


@signed_in
@require_POST
def uncordon(request: Request, name: str) -> HttpResponse:
    return _set_duty(request, name, Duty.IN_SERVICE, "", "")


def _set_duty(request: Request, name: str, duty: Duty, question: str, label: str) -> HttpResponse:
    """``question`` empty: nothing ends by it, so nobody is asked."""
    actor = request.actor
    node = access_node(actor, name, Action.MANAGE_NODES)
    back = reverse("portal:nodes")
    if question and (page := ask_first(request, question % {"name": name}, label, back=back)):
        return page
    done = {
        Duty.CORDONED: _("%(name)s is cordoned."),
        Duty.DRAINING: _("%(name)s is draining."),
        Duty.IN_SERVICE: _("%(name)s is in service."),
    }[duty]
    return act(
        request,
        lambda: set_duty(node_id=node.pk, duty=duty, now=now(), actor=actor),
        done=done % {"name": name},
        to=back,
    )


@signed_in
@require_http_methods(["GET", "POST"])
def labels(request: Request, name: str) -> HttpResponse:
    """By which jobs may choose the node."""
    actor = request.actor
    node = access_node(actor, name, Action.MANAGE_NODES)
    form = LabelsForm(request.POST if request.method == "POST" else None, initial={"labels": "\n".join(node.labels)})
    if request.method == "POST":
        changed = filled_in(
            request,
            form,
            lambda given: set_labels(node_id=node.pk, labels=given["labels"], now=now(), actor=actor),
            done=_("The labels of %(name)s are set.") % {"name": name},
            to=reverse("portal:nodes"),
        )
        if changed:
            return changed
    return show(request, "nodes/node_labels.html", {"form": form, "node": node})


@signed_in
@require_POST
def remove(request: Request, name: str) -> HttpResponse:
    actor = request.actor
    node = access_node(actor, name, Action.MANAGE_NODES)
    back = reverse("portal:nodes")
    question = _("Remove %(name)s? Its agent loses its access at once; to come back it joins anew.")
    if page := ask_first(request, question % {"name": name}, _("Remove"), back=back):
        return page
    return act(
        request,
        lambda: remove_node(node_id=node.pk, now=now(), actor=actor),
        done=_("%(name)s is removed.") % {"name": name},
        to=back,
    )
