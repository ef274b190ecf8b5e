"""Names and addresses of environments as browsers see them."""

import re
from typing import Final

from django.conf import settings
from django.http import HttpRequest

from aistation.ingress.routes import Names

_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PATH: Final = re.compile(r"/(?![/\\])[!-~]*")
LONGEST_PATH: Final = 2000


def names() -> Names:
    """All host names of this installation."""
    own = {settings.PORTAL_HOST, *(host for host in settings.ALLOWED_HOSTS if not host.startswith((".", "*")))}
    return Names(portal=tuple(sorted(own)), domain=settings.ENVIRONMENT_DOMAIN)


def uid_of(request: HttpRequest) -> str | None:
    """The environment that the request's host name stands for; None for any other host."""
    host = request.get_host().lower()
    label, _, domain = host.partition(".")
    if domain.partition(":")[0] != settings.ENVIRONMENT_DOMAIN.lower() or not _LABEL.fullmatch(label):
        return None
    return label


def origin_of(request: HttpRequest) -> str:
    """The origin of pages from the request's own host."""
    return f"{scheme()}://{request.get_host().lower()}"


def scheme() -> str:
    return "https" if settings.PORTAL_URL.startswith("https:") else "http"


def cookie_name() -> str:
    """With HTTPS a name that browsers keep to this one host."""
    return "__Host-aistation_pass" if scheme() == "https" else "aistation_pass"


def local_path(wanted: str | None) -> str:
    """``wanted`` when it is a path on the same host, else the root. Never leads anywhere else."""
    return wanted if wanted and len(wanted) <= LONGEST_PATH and _PATH.fullmatch(wanted) else "/"
