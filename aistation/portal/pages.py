"""How a page is made: sign-in first, errors as pages, one URL for page and partial, a question before an end."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from urllib.parse import urlencode, urlsplit

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django_htmx.middleware import HtmxDetails

from aistation.core.errors import DomainError
from aistation.tenancy.policy import Actor

P = ParamSpec("P")


class Request(HttpRequest):
    """What a view behind `signed_in` gets."""

    actor: Actor
    htmx: HtmxDetails


View = Callable[Concatenate[Request, P], HttpResponse]


def signed_in(view: View[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """For people only: strangers go to the sign-in page and come back. A `DomainError` that the view leaves becomes
    a page; absent and forbidden to see are the same page."""

    @never_cache
    @wraps(view)
    def wrapped(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if getattr(request, "actor", None) is None:
            return _to_sign_in(request)
        try:
            return view(request, *args, **kwargs)  # type: ignore[arg-type]
        except DomainError as error:
            return error_page(request, error.status, error.message)

    return wrapped  # type: ignore[return-value]  # never_cache keeps the narrower Request in its type


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    login = reverse("portal:login")
    if is_partial(request):  # a swapped-in sign-in form would be of no use: the whole page goes there
        response = HttpResponse(status=401)
        response["HX-Refresh"] = "true"
        return response
    back = request.get_full_path() if request.method in ("GET", "HEAD") else "/"
    return HttpResponseRedirect(login if back == "/" else f"{login}?{urlencode({'next': back})}")


def is_partial(request: HttpRequest) -> bool:
    """htmx asks for a piece of the page."""
    htmx = getattr(request, "htmx", None)
    return bool(htmx and not htmx.boosted)


def show(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any] | None = None,
    *,
    partial: str | None = None,
    status: int = 200,
) -> HttpResponse:
    """The page, or its ``partial`` when htmx asks. Both have the same context, so both show the same."""
    chosen = partial if partial and is_partial(request) else template
    response = render(request, chosen, context, status=status)
    patch_vary_headers(response, ["HX-Request"])
    return response


def local_path(request: HttpRequest, candidate: str | None, default: str = "/") -> str:
    """``candidate`` when it is a path of this portal, else ``default``: no redirect ever leads off-site."""
    if not candidate or not candidate.startswith("/") or any(character in candidate for character in "\\\r\n\t"):
        return default
    if candidate.startswith(("//", "/%2f", "/%2F", "/%5c", "/%5C")) or urlsplit(candidate).netloc:
        return default
    safe = url_has_allowed_host_and_scheme(candidate, allowed_hosts=None, require_https=request.is_secure())
    return candidate if safe else default


def go(request: HttpRequest, default: str) -> HttpResponseRedirect:
    """After a POST: back to where the form says (a local path), else to ``default``."""
    response = HttpResponseRedirect(local_path(request, request.POST.get("next"), default))
    response.status_code = 303
    return response


def act(request: Request, service: Callable[[], object], *, done: str, to: str) -> HttpResponse:
    """Call one service and say how it went, on the page that `go` leads to."""
    try:
        service()
    except DomainError as error:
        if error.status == 404:
            raise
        messages.error(request, error.message)
    else:
        messages.success(request, done)
    return go(request, to)


def ask_first(request: Request, question: str, label: str, *, back: str) -> HttpResponse | None:
    """None when the person has confirmed. Else the page that asks; with scripts a dialog has asked already."""
    if request.POST.get("confirmed") == "yes":
        return None
    context = {"question": question, "label": label, "back": back, "next": request.POST.get("next", "")}
    return show(request, "portal/confirm.html", context)


def error_page(request: HttpRequest, status: int, message: str = "") -> HttpResponse:
    """A page for an error; htmx leaves what it shows alone. What is missing always looks the same."""
    titles = {
        403: _("Not allowed"),
        404: _("Not found"),
        409: _("Conflict"),
        429: _("Too many requests"),
        500: _("Something went wrong"),
        503: _("Unavailable"),
    }
    context = {"title": titles.get(status, _("This did not work")), "message": message, "status": status}
    return render(request, "portal/error.html", context, status=status)
