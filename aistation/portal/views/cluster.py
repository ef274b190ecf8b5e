"""The cluster map: what there is, what of it is taken, and by whom as far as one may know."""

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from aistation.core.clock import now
from aistation.portal.cluster_map import cluster_map
from aistation.portal.offer import free_text
from aistation.portal.pages import Request, show, signed_in
from aistation.tenancy.policy import Action, allows


@signed_in
@require_GET
def cluster(request: Request) -> HttpResponse:
    pools = cluster_map(request.actor, now())
    context = {
        "pools": [(pool, free_text(pool.capacity)) for pool in pools],
        "has_nodes": any(pool.nodes for pool in pools),
        "manages_nodes": allows(request.actor, Action.MANAGE_NODES),
        "topics": "cluster queue",
    }
    return show(request, "cluster/cluster.html", context, partial="cluster/_cluster.html")
