"""One way through a form that writes: check, call the service, go on; else show it again with what is wrong."""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.forms import Form
from django.http import HttpResponse

from aistation.core.errors import DomainError
from aistation.portal.forms.errors import add_errors
from aistation.portal.pages import Request, go


def filled_in(
    request: Request,
    form: Form,
    service: Callable[[Mapping[str, Any]], object],
    *,
    done: str,
    to: str,
    names: Mapping[str, str] | None = None,
) -> HttpResponse | None:
    """The redirect after ``service`` has written what the form says. None: show the form again, its errors are set."""
    if not form.is_valid():
        return None
    try:
        service(form.cleaned_data)
    except DomainError as error:
        if error.status == 404:
            raise
        add_errors(form, error, names)
        return None
    messages.success(request, done)
    return go(request, to)
