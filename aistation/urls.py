"""All routes, one edge a line."""

from django.urls import URLPattern, URLResolver, include, path

from aistation.api.views.documents import Metrics
from aistation.fleet.health import healthz, readyz

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/", include("aistation.api.urls")),
    path("metrics", Metrics.as_view()),
    path("agent/v1/", include("aistation.agents.urls")),
    path("healthz", healthz),
    path("readyz", readyz),
    path("", include("aistation.ingress.urls")),
    path("", include("aistation.portal.urls")),
]
handler400 = "aistation.core.problems.bad_request"
handler403 = "aistation.portal.views.errors.forbidden"
handler404 = "aistation.portal.views.errors.not_found"
handler500 = "aistation.portal.views.errors.server_error"
