"""A person's own page: who they are, their password, their API tokens."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST

from aistation.core.clock import now
from aistation.core.errors import DomainError, UnauthenticatedError
from aistation.portal.forms.errors import add_errors
from aistation.portal.forms.session import PasswordForm, TokenForm
from aistation.portal.pages import Request, act, ask_first, show, signed_in
from aistation.tenancy import services
from aistation.tenancy.policy import ROLE_NAMES, Action, Role, Scope
from aistation.tenancy.selectors import groups_of, list_tokens, require

_BACKEND = "django.contrib.auth.backends.ModelBackend"
_DAY_S = 24 * 3600


@signed_in
@require_GET
def profile(request: Request) -> HttpResponse:
    return _page(request)


@sensitive_post_parameters()
@signed_in
@require_POST
def change_password(request: Request) -> HttpResponse:
    """All sessions end with the old password; this browser gets a new one."""
    form = PasswordForm(request.POST)
    if not form.is_valid():
        return _page(request, password_form=form)
    actor, instant = request.actor, now()
    try:
        services.check_password(
            username=actor.username,
            password=form.cleaned_data["current"],
            address=request.META.get("REMOTE_ADDR") or None,
            now=instant,
        )
    except UnauthenticatedError:
        form.add_error("current", _("This is not the present password."))
        return _page(request, password_form=form)
    except DomainError as error:
        add_errors(form, error)
        return _page(request, password_form=form, status=error.status)
    try:
        user = services.change_user(
            user_id=actor.user_id, password=form.cleaned_data["password"], now=instant, actor=actor
        )
    except DomainError as error:
        add_errors(form, error)
        return _page(request, password_form=form)
    login(request, user, backend=_BACKEND)
    messages.success(request, _("The password is changed. All other sessions are signed out."))
    return redirect("portal:profile")


@signed_in
@require_POST
def create_token(request: Request) -> HttpResponse:
    """The one answer to a POST that is a page: the secret is shown here and nowhere again."""
    require(request.actor, Action.MANAGE_OWN_TOKENS)
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _page(request, token_form=form)
    try:
        fresh = services.create_token(
            user_id=request.actor.user_id,
            name=form.cleaned_data["name"],
            now=now(),
            expires_in_s=form.cleaned_data["expires_in_days"] * _DAY_S,
            longest_s=settings.TOKEN_MAX_LIFETIME_S,
            actor=request.actor,
            scopes=[Scope(scope) for scope in form.cleaned_data["scopes"]],
        )
    except DomainError as error:
        add_errors(form, error)
        return _page(request, token_form=form)
    return _page(request, secret=fresh.secret, status=201)


@signed_in
@require_POST
def revoke_token(request: Request, token_id: int) -> HttpResponse:
    require(request.actor, Action.MANAGE_OWN_TOKENS)
    back = reverse("portal:profile")
    question = _("Revoke this token? Programs that use it lose their access at once.")
    if page := ask_first(request, question, _("Revoke"), back=back):
        return page
    actor = request.actor
    return act(
        request,
        lambda: services.revoke_token(user_id=actor.user_id, token_id=token_id, now=now(), actor=actor),
        done=_("The token is revoked."),
        to=back,
    )


def _page(
    request: Request,
    *,
    password_form: PasswordForm | None = None,
    token_form: TokenForm | None = None,
    secret: str = "",
    status: int = 200,
) -> HttpResponse:
    roles = groups_of(request.actor.user_id)
    context = {
        "groups": [(name, ROLE_NAMES[Role(role)]) for name, role in roles.items()],
        "tokens": list_tokens(request.actor.user_id),
        "password_form": password_form or PasswordForm(),
        "token_form": token_form or TokenForm(),
        "secret": secret,
        "now": now(),
    }
    return show(request, "profile/profile.html", context, status=status)
