"""Two pages for load balancers and scripts. They need no credential and tell nothing but yes or no."""

from django.db import connection
from django.http import HttpRequest, JsonResponse

from aistation.core.errors import UnavailableError
from aistation.fleet.selectors import has_ready_node


def healthz(_request: HttpRequest) -> JsonResponse:
    """200: the control plane answers and so does its database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"status": "ok"})


def readyz(_request: HttpRequest) -> JsonResponse:
    """200: also at least one node is ready for work."""
    if not has_ready_node():
        raise UnavailableError("No node is ready.")
    return JsonResponse({"status": "ok"})
