"""The first page: my things, my quota, what is free."""

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from aistation.fleet.selectors import list_capacity
from aistation.portal.pages import Request, show, signed_in


@signed_in
@require_GET
def home(request: Request) -> HttpResponse:
    return show(request, "portal/home.html", {"capacity": list_capacity(request.actor)})
