"""OpenAPI, the page that shows it, and metrics."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.request import Request
from rest_framework.response import Response

from aistation.api import schema
from aistation.api.authentication import actor_of
from aistation.api.metrics import exposition
from aistation.api.views.base import ApiView, operation
from aistation.api.views.logs import AnyBytes
from aistation.core.errors import NotFoundError
from aistation.tenancy.policy import Action
from aistation.tenancy.selectors import require


@extend_schema(exclude=True)
class Schema(ApiView):
    """OpenAPI as JSON, which is YAML too."""

    content_negotiation_class = AnyBytes

    def get(self, request: Request) -> Response:
        return Response(schema.openapi())


class Metrics(ApiView):
    content_negotiation_class = AnyBytes

    @operation(
        "getMetrics",
        "The cluster in Prometheus' text format",
        answer={(200, "text/plain"): OpenApiResponse(OpenApiTypes.STR, description="Samples.")},
    )
    def get(self, request: Request) -> HttpResponse:
        actor = actor_of(request)
        require(actor, Action.VIEW_METRICS)
        return HttpResponse(exposition(actor), content_type=CONTENT_TYPE_LATEST)


@extend_schema(exclude=True)
class Missing(ApiView):
    """Every other address below /api/: to a stranger 401, to everybody else the same 404 as for a missing thing."""

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        raise NotFoundError


def docs(request: HttpRequest) -> HttpResponse:
    """The browsable page, for people who are signed in to the portal."""
    if getattr(request, "actor", None) is None:
        return redirect(f"{settings.LOGIN_URL}?next={request.path}")
    return render(request, "api/docs.html")
