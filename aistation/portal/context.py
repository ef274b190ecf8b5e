"""What every page knows: who looks at it, the menu, the look, and what the cluster cannot do."""

from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from aistation.portal.cluster_warnings import cluster_warnings
from aistation.portal.navigation import menu
from aistation.tenancy.policy import Actor

THEMES = ("light", "dark")


def portal(request: HttpRequest) -> dict[str, Any]:
    """Django's context processor. Lazy where it would ask the database: partials need none of it."""
    actor: Actor | None = getattr(request, "actor", None)
    theme = request.COOKIES.get("theme", "")
    common = {
        "actor": actor,
        "theme": theme if theme in THEMES else "",
        "languages": settings.LANGUAGES,
    }
    if actor is None:
        return common
    return {**common, "menu": menu(actor, request.path), "cluster_warnings": partial(cluster_warnings, actor)}
