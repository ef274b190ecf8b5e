"""Sign-in, sign-out, language and colours."""

from django.conf import settings
from django.contrib.auth import login, logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import check_for_language, get_supported_language_variant
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from aistation.core.clock import now
from aistation.core.errors import DomainError, RateLimitedError
from aistation.portal.context import THEMES
from aistation.portal.forms.errors import add_errors
from aistation.portal.forms.session import LookForm, SignInForm
from aistation.portal.pages import go, local_path, show
from aistation.tenancy.services import check_password

_BACKEND = "django.contrib.auth.backends.ModelBackend"
_YEAR_S = 365 * 24 * 3600


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """The session is a new one after the sign-in, so that nobody can hand out theirs beforehand."""
    if getattr(request, "actor", None) is not None and request.method == "GET":
        return redirect(local_path(request, request.GET.get("next")))
    form = SignInForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        username, password = form.cleaned_data["username"], form.cleaned_data["password"]
        try:
            user = check_password(
                username=username, password=password, address=request.META.get("REMOTE_ADDR") or None, now=now()
            )
        except DomainError as error:
            add_errors(form, error)
            status = error.status if isinstance(error, RateLimitedError) else 200
        else:
            login(request, user, backend=_BACKEND)
            return go(request, "/")
    context = {"form": form, "next": local_path(request, request.POST.get("next") or request.GET.get("next"))}
    response = show(request, "session/login.html", context, status=status)
    if status == RateLimitedError.status:
        response["Retry-After"] = "60"
    return response


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("portal:login")


@require_POST
def look(request: HttpRequest) -> HttpResponse:
    """Remember language and colours in cookies: they are a browser's, not a person's."""
    form = LookForm(request.POST)
    response = go(request, "/")
    if not form.is_valid():
        return response
    language, theme = form.cleaned_data["language"], form.cleaned_data["theme"]
    secure = request.is_secure()
    if language and check_for_language(language) and language in dict(settings.LANGUAGES):
        name = settings.LANGUAGE_COOKIE_NAME
        response.set_cookie(name, get_supported_language_variant(language), _YEAR_S, samesite="Lax", secure=secure)
    if theme in THEMES:
        response.set_cookie("theme", theme, _YEAR_S, samesite="Lax", secure=secure)
    return response
