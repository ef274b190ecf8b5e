"""The gateway's questions, and a person's way into an environment.

A browser that comes to an environment's host without a pass goes to the portal (`open_environment`), which knows the
person, and comes back with a code that becomes a cookie of that host only. Before each request to such a host Envoy
asks (`authorize`); the answer to one that may pass names the environment and adds the container's own token.
"""

from typing import Final
from urllib.parse import urlencode

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from aistation.core.clock import now
from aistation.core.errors import DomainError, ForbiddenError, NotFoundError, UnauthenticatedError
from aistation.core.problems import problem_response
from aistation.environments.addresses import url_of
from aistation.ingress import hosts, selectors, services
from aistation.ingress.envoy import (
    ASKED_HEADERS,
    AUTHORIZE_PATH,
    ENVIRONMENT_HEADER,
    SECRET_HEADER,
    gateway_secret,
)
from aistation.ingress.gate import Asked, Recent, cookies_without
from aistation.ingress.routes import OWN_PATHS
from aistation.tenancy.policy import Action, Actor
from aistation.workloads import selectors as workloads
from aistation.workloads.lifecycle import Kind, State

_ENTER: Final = "/enter"
_recent: Final[Recent[tuple[str, str], selectors.Entry]] = Recent(lasts_s=2, size=10_000)


class NotRunningError(DomainError):
    code = "environment_not_running"
    status = 404


@csrf_exempt
@never_cache
def authorize(request: HttpRequest) -> HttpResponse:
    """200 with the container's token, or the answer that the browser gets instead. Only the gateway may ask.

    To one who may not enter, a stopped environment and one that never was answer like one that runs.
    """
    uid = hosts.uid_of(request) if _is_gateway(request) else None
    if uid is None:
        raise NotFoundError
    path = request.path.removeprefix(AUTHORIZE_PATH)
    if path == OWN_PATHS or path.startswith(f"{OWN_PATHS}/"):
        return _own_page(request, uid, path.removeprefix(OWN_PATHS))
    asked = _asked(request)
    cookie = request.COOKIES.get(hosts.cookie_name(), "")
    entry = _entry(cookie, uid) if cookie else None
    if entry is None:
        return _send_to_portal(request, uid, asked)
    if not entry.is_running:
        return _closed_page(request, uid)
    if not asked.is_from_own_page:
        return problem_response(ForbiddenError("A page of another origin cannot use this environment."))
    return _passed(request, uid, entry)


def recent_answer(request: HttpRequest) -> HttpResponse | None:
    """What `authorize` would answer to one who may pass, when that was found a moment ago. Asks no database.

    None: `authorize` must be asked.
    """
    uid = hosts.uid_of(request) if _is_gateway(request) else None
    if uid is None or request.path.startswith(AUTHORIZE_PATH + OWN_PATHS):
        return None
    entry = _recent.get((request.COOKIES.get(hosts.cookie_name(), ""), uid))
    return _passed(request, uid, entry) if entry and _asked(request).is_from_own_page else None


@require_safe
@never_cache
def open_environment(request: HttpRequest, uid: str) -> HttpResponse:
    """On the portal: send the signed-in owner on to the environment's host with a one-time code.

    Another person's environment is missing. One that does not run leads to its page.
    """
    actor: Actor | None = getattr(request, "actor", None)
    if actor is None or request.session.session_key is None:
        return HttpResponseRedirect(f"{settings.LOGIN_URL}?{urlencode({'next': request.get_full_path()})}")
    try:
        environment = workloads.access_workload(actor, uid, Kind.ENVIRONMENT, Action.OPEN_ENVIRONMENT)
    except (NotFoundError, ForbiddenError) as error:
        raise Http404 from error
    if environment.state != State.RUNNING:
        return HttpResponseRedirect(_page_of(uid))
    code = services.issue_code(
        actor=actor,
        workload_id=environment.pk,
        session_key=request.session.session_key,
        session_hash=request.user.get_session_auth_hash(),  # type: ignore[union-attr]
        next_path=hosts.local_path(request.GET.get("next")),
        now=now(),
    )
    return HttpResponseRedirect(f"{url_of(uid).rstrip('/')}{OWN_PATHS}{_ENTER}?{urlencode({'code': code})}")


def _own_page(request: HttpRequest, uid: str, path: str) -> HttpResponse:
    """Pages of ours on an environment's host."""
    if path != _ENTER or request.method != "GET":
        raise NotFoundError
    return _enter(request, uid)


def _enter(request: HttpRequest, uid: str) -> HttpResponse:
    """Trade the code for the cookie of this host, and go where the person wanted to."""
    try:
        redeemed = services.redeem(code=request.GET.get("code", ""), uid=uid, now=now())
    except NotFoundError:
        return HttpResponseRedirect(_portal_entry(uid, "/"))  # a code that is too old: ask for another
    response = HttpResponseRedirect(redeemed.next_path)
    response.set_cookie(
        hosts.cookie_name(),
        redeemed.cookie,
        path="/",
        secure=hosts.scheme() == "https",
        httponly=True,
        samesite="Lax",
    )
    return response


def _is_gateway(request: HttpRequest) -> bool:
    return constant_time_compare(request.headers.get(SECRET_HEADER, ""), gateway_secret(settings.SECRET_KEY))


def _asked(request: HttpRequest) -> Asked:
    headers = {name: request.headers[name] for name in ASKED_HEADERS if name in request.headers}
    return Asked(request.method or "", hosts.origin_of(request), headers)


def _entry(cookie: str, uid: str) -> selectors.Entry | None:
    entry = _recent.get((cookie, uid))
    if entry is not None:
        return entry
    instant = now()
    entry = selectors.find_entry(cookie=cookie, uid=uid, now=instant)
    if entry is not None:
        services.renew(pass_id=entry.pass_id, expires_at=entry.expires_at, now=instant)
        if entry.is_running:
            _recent.put((cookie, uid), entry)
    return entry


def _passed(request: HttpRequest, uid: str, entry: selectors.Entry) -> HttpResponse:
    response = HttpResponse()
    response[ENVIRONMENT_HEADER] = uid
    if entry.access_token:
        response["Authorization"] = f"token {entry.access_token}"
    kept = cookies_without(
        request.headers.get("cookie", ""), frozenset({hosts.cookie_name(), settings.SESSION_COOKIE_NAME})
    )
    if kept:
        response["Cookie"] = kept
    else:
        response["X-Envoy-Auth-Headers-To-Remove"] = "cookie"
    return response


def _send_to_portal(request: HttpRequest, uid: str, asked: Asked) -> HttpResponse:
    if not asked.is_navigation:
        return problem_response(UnauthenticatedError("Open this environment from the portal first."))
    return HttpResponseRedirect(_portal_entry(uid, request.get_full_path().removeprefix(AUTHORIZE_PATH)))


def _closed_page(request: HttpRequest, uid: str) -> HttpResponse:
    """For who may enter an environment that does not run. Nothing is started by asking (B023)."""
    if "text/html" not in request.headers.get("accept", ""):
        return problem_response(NotRunningError("This environment is not running. Start it in the portal."))
    return render(request, "ingress/closed.html", {"page": settings.PORTAL_URL + _page_of(uid)}, status=404)


def _portal_entry(uid: str, wanted: str) -> str:
    return f"{settings.PORTAL_URL}/environments/{uid}/open?{urlencode({'next': hosts.local_path(wanted)})}"


def _page_of(uid: str) -> str:
    return f"/environments/{uid}"
