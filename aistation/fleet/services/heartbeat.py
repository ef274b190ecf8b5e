"""Take in what a node says of itself: it lives, what it has, how its cards are."""

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NoReturn

from django.db import transaction

from aistation.audit.services import agent_of, record
from aistation.core.dispatch import changed_on_commit, send_once_on_commit
from aistation.core.errors import UnauthenticatedError
from aistation.fleet.errors import NodeIdentityInUseError, RuntimeRefusedError
from aistation.fleet.models import Device, Liveness, Node, Pool
from aistation.fleet.selectors import unavailable_because
from aistation.fleet.services.inventory import DeviceFacts, update_devices
from aistation.fleet.services.pools import set_cpu
from aistation.fleet.services.rarely import note_rarely

logger = logging.getLogger(__name__)

ISOLATES_NOTHING: Final = "process"
_PLAIN: Final = (
    "boot_id",
    "agent_version",
    "address",
    "runtime",
    "runtime_version",
    "runtime_error",
    "devices_error",
    "disk_used_percent",
    "simulated",
)
_WRITTEN: Final = (*_PLAIN, "machine_cpu_milli", "cpu_milli", "cpu_over_milli", "memory_mib", "memory_over_mib")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as its agent describes it."""

    fingerprint: str
    boot_id: str
    agent_version: str
    address: str
    cpu_milli: int
    memory_mib: int
    runtime: str
    runtime_version: str = ""
    runtime_error: str = ""
    devices: tuple[DeviceFacts, ...] = ()
    devices_error: str = ""
    disk_used_percent: int | None = None
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Beat:
    """``version`` of the desired state; ``was``: the node's liveness before this heartbeat."""

    version: int
    was: Liveness


def record_heartbeat(*, node_id: int, facts: NodeFacts, now: datetime, allow_process_runtime: bool) -> Beat:
    """The node lives and has this. ``now`` is the database's. What has not changed is not written.

    Capacity may shrink below what is taken: running work stays, nothing new fits until enough has ended.
    Raises UnauthenticatedError (removed meanwhile), and, with an audit event at most once a minute,
    NodeIdentityInUseError and RuntimeRefusedError. A refused heartbeat changes nothing of the node.
    """
    if facts.runtime == ISOLATES_NOTHING and not allow_process_runtime:
        note_rarely(node_id=node_id, action="node.runtime_refused", now=now, after={"runtime": facts.runtime})
        raise RuntimeRefusedError(
            "This node runs workloads as plain processes, which isolates nothing. Install Docker on it, or allow the "
            "process runtime in the server's settings (not in production)."
        )
    beat = _record(node_id, facts, now)
    if beat is None:
        refuse_identity(node_id=node_id, fingerprint=facts.fingerprint, now=now)
    return beat


def refuse_identity(*, node_id: int, fingerprint: str, now: datetime) -> NoReturn:
    """Another agent than the node's own speaks in its name: note it, and raise NodeIdentityInUseError."""
    note_rarely(node_id=node_id, action="node.identity_conflict", now=now, after={"fingerprint": fingerprint})
    raise NodeIdentityInUseError(
        "Another agent runs as this node. Give this machine a join token and a name of its own. If it replaces the "
        "other one: stop that agent, end what is booked on the node, and wait until the node is lost."
    )


@transaction.atomic
def _record(node_id: int, facts: NodeFacts, now: datetime) -> Beat | None:
    """None: the identity is another agent's."""
    node = Node.objects.select_for_update(no_key=True).filter(pk=node_id).first()
    if node is None:
        raise UnauthenticatedError("This node was removed. Enrol the machine again with a new join token.")
    if node.fingerprint != facts.fingerprint and not _take_over(node, facts.fingerprint, now):
        return None
    was = Liveness(node.liveness)
    could_not = unavailable_because(node)
    had = (node.cpu_milli, node.memory_mib)
    written = [*_update_node(node, facts), "last_heartbeat_at", "fingerprint"]
    node.last_heartbeat_at = now
    if was != Liveness.READY:
        node.liveness = Liveness.READY
        node.state_changed_at = now
        written += ["liveness", "state_changed_at"]
    node.save(update_fields=written)
    cards_changed = update_devices(node, facts.devices, facts.devices_error, now)
    if was == Liveness.LOST:
        record(agent_of(node.name), now, "node.back", "node", node.name)
    if cards_changed or could_not != unavailable_because(node) or had != (node.cpu_milli, node.memory_mib):
        send_once_on_commit("scheduling.decide")
        changed_on_commit("cluster")
    return Beat(node.desired_version, was)


def _take_over(node: Node, fingerprint: str, now: datetime) -> bool:
    """A moved or renamed machine may go on as the same node, once nobody beats as it and nothing is booked on it.

    Else two agents would report on the same tasks, and the one without the containers would say that they are gone.
    """
    is_held = (
        node.cpu_taken_milli or node.memory_taken_mib or Device.objects.filter(node=node, taken_milli__gt=0).exists()
    )
    if node.liveness != Liveness.LOST or is_held:
        return False
    record(
        agent_of(node.name),
        now,
        "node.identity_change",
        "node",
        node.name,
        before={"fingerprint": node.fingerprint},
        after={"fingerprint": fingerprint},
    )
    node.fingerprint = fingerprint
    return True


def _update_node(node: Node, facts: NodeFacts) -> list[str]:
    """Set what the agent says; the names of the columns that changed."""
    before = {column: getattr(node, column) for column in _WRITTEN}
    for column in _PLAIN:
        setattr(node, column, getattr(facts, column))
    percent = Pool.objects.values_list("cpu_overcommit_percent", flat=True).get(pk=node.pool_id)
    set_cpu(node, facts.cpu_milli, percent)
    node.memory_mib = facts.memory_mib
    node.memory_over_mib = node.memory_taken_mib if node.memory_taken_mib > node.memory_mib else 0
    return [column for column in _WRITTEN if getattr(node, column) != before[column]]
