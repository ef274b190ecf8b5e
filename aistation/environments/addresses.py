"""Where people reach an environment: each has its own host name, so that browsers keep them apart."""

from urllib.parse import urlsplit

from django.conf import settings


def host_of(uid: str) -> str:
    return f"{uid}.{settings.ENVIRONMENT_DOMAIN}"


def url_of(uid: str) -> str:
    """The environment's address in the browser, at the portal's scheme and port."""
    portal = urlsplit(settings.PORTAL_URL)
    port = f":{portal.port}" if portal.port else ""
    return f"{portal.scheme}://{host_of(uid)}{port}/"
