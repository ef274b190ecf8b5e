"""What a person must know of this cluster before trusting it with work or with a measurement."""

from dataclasses import dataclass

from aistation.fleet.selectors import list_nodes
from aistation.tenancy.policy import Action, Actor, allows


@dataclass(frozen=True, slots=True)
class ClusterWarnings:
    """``isolates_nothing``: some node runs plain processes. ``is_simulated``: some node's cards do not exist."""

    isolates_nothing: bool = False
    is_simulated: bool = False


def cluster_warnings(actor: Actor) -> ClusterWarnings:
    """One query."""
    if not allows(actor, Action.VIEW_CLUSTER):
        return ClusterWarnings()
    nodes = list_nodes(actor).select_related(None).prefetch_related(None).order_by()
    facts = set(nodes.values_list("runtime", "simulated").distinct())
    return ClusterWarnings(
        isolates_nothing=any(runtime == "process" for runtime, _ in facts),
        is_simulated=any(simulated for _, simulated in facts),
    )
