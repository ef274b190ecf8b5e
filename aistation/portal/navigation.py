"""What the menu offers, in order. An entry is shown when the policy allows its action."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from aistation.tenancy.policy import Action, Actor, allows


@dataclass(frozen=True, slots=True)
class Item:
    """``action`` None: for everybody who is signed in."""

    name: str
    icon: str
    label: str | Promise
    action: Action | None = None


@dataclass(frozen=True, slots=True)
class Section:
    label: str | Promise
    items: Sequence[Item]


@dataclass(frozen=True, slots=True)
class Link:
    url: str
    icon: str
    label: str | Promise
    is_active: bool


MENU: Final = (
    Section(
        "",
        (
            Item("home", "home", _("Home")),
            Item("environments", "terminal-2", _("Environments")),
            Item("jobs", "player-play", _("Jobs")),
            Item("queue", "list-numbers", _("Queue")),
            Item("cluster", "layout-grid", _("Cluster")),
            Item("lending", "calendar", _("Lending")),
        ),
    ),
    Section(
        _("Groups"),
        (
            Item("groups", "users-group", _("Groups")),
            Item("quotas", "gauge", _("Quotas")),
        ),
    ),
    Section(
        _("Administration"),
        (
            Item("nodes", "server-2", _("Nodes"), Action.MANAGE_NODES),
            Item("pools", "stack-2", _("Pools"), Action.MANAGE_POOLS),
            Item("whatif", "activity", _("What if"), Action.MANAGE_POOLS),
            Item("images", "package", _("Images"), Action.MANAGE_CATALOG),
            Item("profiles", "adjustments-horizontal", _("Profiles"), Action.MANAGE_CATALOG),
            Item("users", "users", _("Users"), Action.MANAGE_USERS),
            Item("audit", "history", _("Audit log"), Action.VIEW_AUDIT),
        ),
    ),
)


def menu(actor: Actor, path: str) -> list[tuple[str | Promise, list[Link]]]:
    """Sections with the links that this person may follow; empty sections are left out."""
    sections = []
    for section in MENU:
        links = [link for item in section.items if (link := _link(actor, item, path)) is not None]
        if links:
            sections.append((section.label, links))
    return sections


def _link(actor: Actor, item: Item, path: str) -> Link | None:
    if item.action is not None and not allows(actor, item.action):
        return None
    try:
        url = reverse(f"portal:{item.name}")
    except NoReverseMatch:  # a page that this build does not have
        return None
    is_active = path == url or (url != "/" and path.startswith(url + "/"))
    return Link(url, item.icon, item.label, is_active)
