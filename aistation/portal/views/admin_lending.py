"""Lending rules and warm reserves: everybody reads them, platform admins write them."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from aistation.core.clock import now
from aistation.fleet.selectors import access_lending, access_pool, access_reserve, list_lending, list_pools
from aistation.fleet.selectors import list_reserves as reserves_by_name
from aistation.fleet.services import (
    change_lending,
    change_reserve,
    create_lending,
    create_reserve,
    delete_lending,
    delete_reserve,
)
from aistation.portal.filling import filled_in
from aistation.portal.forms.lending import LendingForm, ReserveForm, typed, with_preset
from aistation.portal.hours import Opening, day_choices, opening_of, windows_text
from aistation.portal.pages import Request, act, ask_first, show, signed_in
from aistation.tenancy.policy import Action, Actor, allows
from aistation.tenancy.selectors import require
from aistation.workloads.lifecycle import Kind
from aistation.workloads.occupancy import lent_now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aistation.fleet.models import LendingRule, Pool, Reserve

_ERRORS = {"notice_s": "notice"}
ZONES = ("UTC", "Asia/Shanghai", "Asia/Tokyo", "Asia/Kolkata", "Europe/Berlin", "Europe/London", "America/New_York",
         "America/Los_Angeles")  # fmt: skip
"""Offered in the field of the time zone; it takes any other too."""


@dataclass(frozen=True, slots=True)
class Row:
    """A rule or reserve with what its row says."""

    one: "LendingRule | Reserve"
    windows: "Sequence[str]"
    opening: Opening
    lent_milli: int = 0


@signed_in
@require_GET
def lending(request: Request) -> HttpResponse:
    actor, at = request.actor, now()
    lent = lent_now()
    rules = [_row(rule, at, lent.get(rule.pk, 0)) for rule in list_lending(actor)]
    context = {
        "rules": rules,
        "reserves": [_row(reserve, at) for reserve in reserves_by_name(actor)],
        "may_change": allows(actor, Action.MANAGE_POOLS),
        "pools": [pool.name for pool in list_pools(actor)],
        "topics": "cluster queue",
    }
    return show(request, "lending/lending.html", context, partial="lending/_lending.html")


def _row(one: "LendingRule | Reserve", at: datetime, lent_milli: int = 0) -> Row:
    return Row(one, windows_text(one.windows), opening_of(one.windows, one.time_zone, at), lent_milli)


# --- rules ---


@signed_in
@require_http_methods(["GET", "POST"])
def new_rule(request: Request) -> HttpResponse:
    actor = request.actor
    pools = _pools(actor)
    names, borrowers = [pool.name for pool in pools], [pool.name for pool in pools if Kind.JOB in pool.kinds]
    initial: dict[str, Any] = {"lender": request.GET.get("pool", ""), "time_zone": _usual_zone(actor)}
    form = LendingForm(names, borrowers, request.POST or None, initial=initial, is_new=True)
    if again := _again(request, form, lambda start: LendingForm(names, borrowers, initial=start, is_new=True)):
        return again

    def make(given: Any) -> None:
        lender, borrower = (access_pool(actor, given[name]) for name in ("lender", "borrower"))
        create_lending(
            name=given["name"], lender=lender, borrower=borrower, values=form.values(), now=now(), actor=actor
        )

    if request.method == "POST":
        done = _("The rule is made.")
        if made := filled_in(request, form, make, done=done, to=reverse("portal:lending"), names=_ERRORS):
            return made
    return _rule_page(request, form, None, can_lend=len(names) > 1 and bool(borrowers))


@signed_in
@require_http_methods(["GET", "POST"])
def rule(request: Request, name: str) -> HttpResponse:
    actor = request.actor
    require(actor, Action.MANAGE_POOLS)
    found = access_lending(actor, name)
    present = {
        **{field: getattr(found, field) for field in ("windows", "time_zone", "take_back", "enabled")},
        **{field: getattr(found, field) for field in ("keep_free_cards", "keep_free_slices")},
        "notice": found.notice_s or "",
    }
    form = LendingForm((), (), request.POST or None, initial=present, is_new=False)
    if again := _again(request, form, lambda start: LendingForm((), (), initial=start, is_new=False), found):
        return again
    if request.method == "POST":
        changed = filled_in(
            request,
            form,
            lambda _given: change_lending(name=name, changes=form.values(), now=now(), actor=actor),
            done=_("The rule is changed."),
            to=reverse("portal:lending"),
            names=_ERRORS,
        )
        if changed:
            return changed
    return _rule_page(request, form, found, can_lend=True)


def _rule_page(request: Request, form: LendingForm, found: "LendingRule | None", *, can_lend: bool) -> HttpResponse:
    context = {"form": form, "rule": found, "days": day_choices(), "zones": ZONES, "can_lend": can_lend}
    return show(request, "lending/rule_form.html", context)


@signed_in
@require_POST
def enable(request: Request, name: str) -> HttpResponse:
    return _set_enabled(request, name, enabled=True)


@signed_in
@require_POST
def disable(request: Request, name: str) -> HttpResponse:
    return _set_enabled(request, name, enabled=False)


def _set_enabled(request: Request, name: str, *, enabled: bool) -> HttpResponse:
    actor, back = request.actor, reverse("portal:lending")
    require(actor, Action.MANAGE_POOLS)
    access_lending(actor, name)
    question = _("Stop lending by %(name)s? Jobs on lent cards that may be interrupted are asked to leave.")
    if not enabled and (page := ask_first(request, question % {"name": name}, _("Stop lending"), back=back)):
        return page
    done = _("%(name)s is in force.") if enabled else _("%(name)s lends no more.")
    return act(
        request,
        lambda: change_lending(name=name, changes={"enabled": enabled}, now=now(), actor=actor),
        done=done % {"name": name},
        to=back,
    )


@signed_in
@require_POST
def delete_rule(request: Request, name: str) -> HttpResponse:
    actor, back = request.actor, reverse("portal:lending")
    require(actor, Action.MANAGE_POOLS)
    access_lending(actor, name)
    question = _("Delete rule %(name)s? Jobs on lent cards that may be interrupted are asked to leave.")
    if page := ask_first(request, question % {"name": name}, _("Delete"), back=back):
        return page
    return act(
        request,
        lambda: delete_lending(name=name, now=now(), actor=actor),
        done=_("%(name)s is deleted.") % {"name": name},
        to=back,
    )


# --- reserves ---


@signed_in
@require_http_methods(["GET", "POST"])
def new_reserve(request: Request) -> HttpResponse:
    actor = request.actor
    names = [pool.name for pool in _pools(actor) if Kind.ENVIRONMENT in pool.kinds]
    initial = {"pool": request.GET.get("pool", ""), "time_zone": _usual_zone(actor)}
    form = ReserveForm(names, request.POST or None, initial=initial, is_new=True)
    if again := _again(request, form, lambda start: ReserveForm(names, initial=start, is_new=True)):
        return again

    def make(given: Any) -> None:
        pool = access_pool(actor, given["pool"])
        create_reserve(name=given["name"], pool=pool, values=form.values(), now=now(), actor=actor)

    if request.method == "POST":
        done = _("The reserve is made.")
        if made := filled_in(request, form, make, done=done, to=reverse("portal:lending")):
            return made
    return _reserve_page(request, form, None, can_reserve=bool(names))


@signed_in
@require_http_methods(["GET", "POST"])
def reserve(request: Request, name: str) -> HttpResponse:
    actor = request.actor
    require(actor, Action.MANAGE_POOLS)
    found = access_reserve(actor, name)
    present = {field: getattr(found, field) for field in ("slices", "windows", "time_zone")}
    form = ReserveForm((), request.POST or None, initial=present, is_new=False)
    if again := _again(request, form, lambda start: ReserveForm((), initial=start, is_new=False), found):
        return again
    if request.method == "POST":
        changed = filled_in(
            request,
            form,
            lambda _given: change_reserve(name=name, changes=form.values(), now=now(), actor=actor),
            done=_("The reserve is changed."),
            to=reverse("portal:lending"),
        )
        if changed:
            return changed
    return _reserve_page(request, form, found, can_reserve=True)


def _reserve_page(request: Request, form: ReserveForm, found: "Reserve | None", *, can_reserve: bool) -> HttpResponse:
    context = {"form": form, "reserve": found, "days": day_choices(), "zones": ZONES, "can_reserve": can_reserve}
    return show(request, "lending/reserve_form.html", context)


@signed_in
@require_POST
def delete(request: Request, name: str) -> HttpResponse:
    actor, back = request.actor, reverse("portal:lending")
    require(actor, Action.MANAGE_POOLS)
    access_reserve(actor, name)
    question = _("Delete reserve %(name)s? Its room is then lent, or given to whoever asks first.")
    if page := ask_first(request, question % {"name": name}, _("Delete"), back=back):
        return page
    return act(
        request,
        lambda: delete_reserve(name=name, now=now(), actor=actor),
        done=_("%(name)s is deleted.") % {"name": name},
        to=back,
    )


# --- common ---


def _pools(actor: Actor) -> "list[Pool]":
    require(actor, Action.MANAGE_POOLS)
    return list(list_pools(actor))


def _usual_zone(actor: Actor) -> str:
    """That of a rule there is. Empty: scripts put in the browser's own."""
    rows: list[LendingRule | Reserve] = [*list_lending(actor)[:1], *reserves_by_name(actor)[:1]]
    return next((row.time_zone for row in rows), "")


def _again(request: Request, form: Any, blank: Any, found: Any = None) -> HttpResponse | None:
    """A row or a preset was asked for: the form with it, unchecked, nothing saved. None: something else was."""
    wanted = request.POST.get("rows", "")
    if not wanted:
        return None
    start = typed(request.POST, form.fields)
    start["windows"] = with_preset(start["windows"], wanted)
    is_rule = isinstance(form, LendingForm)
    key, page = ("rule", "lending/rule_form.html") if is_rule else ("reserve", "lending/reserve_form.html")
    context = {"form": blank(start), key: found, "days": day_choices(), "zones": ZONES}
    context |= {"can_lend": True, "can_reserve": True}
    return show(request, page, context, partial="lending/_windows.html")
