"""The audit log: who did what to what, before and after."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from aistation.audit.selectors import list_events
from aistation.portal.pages import Request, show, signed_in
from aistation.tenancy.policy import Action
from aistation.tenancy.selectors import require

if TYPE_CHECKING:
    from aistation.audit.models import AuditEvent

PAGE: Final = 50
TARGETS: Final = (
    "folder", "group", "image", "join_token", "node", "pool", "profile", "quota", "token", "user", "workload",
)  # fmt: skip
_LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class Change:
    """One value of an event. ``before`` or ``after`` None: there was or is none."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Page:
    rows: "Sequence[tuple[AuditEvent, Sequence[Change]]]"
    older: str
    is_first: bool


@signed_in
@require_GET
def audit(request: Request) -> HttpResponse:
    """Newest first; ``before`` an id is the next page."""
    require(request.actor, Action.VIEW_AUDIT)
    names = ("actor", "target_type", "target", "group")
    words = {name: request.GET.get(name, "").replace("\x00", "")[:128].strip() for name in names}
    events = list_events(**{name: word or None for name, word in words.items()})
    before = request.GET.get("before", "")
    if before.isascii() and before.isdigit() and len(before) <= 18:
        events = events.filter(pk__lt=int(before))
    found = list(events[: PAGE + 1])
    rows = [(event, changes_of(event.before, event.after)) for event in found[:PAGE]]
    page = Page(rows, str(found[PAGE - 1].pk) if len(found) > PAGE else "", is_first=not before)
    context = {"page": page, "words": words, "targets": TARGETS, "narrows": any(words.values())}
    return show(request, "audit/audit.html", context)


def changes_of(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[Change]:
    """By name; what stayed the same is left out."""
    old, new = before or {}, after or {}
    return [
        Change(name, _text(old, name), _text(new, name))
        for name in sorted({*old, *new})
        if name not in old or name not in new or old[name] != new[name]
    ]


def _text(values: Mapping[str, Any], name: str) -> str | None:
    if name not in values:
        return None
    value = values[name]
    if value is None:
        return _("none")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
