"""Rows of the fleet for tests, and the facts that agents report."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from aistation.fleet.models import Device, Duty, Liveness, Node, Pool
from aistation.fleet.services import Beat, DeviceFacts, NodeFacts, record_heartbeat
from aistation.tenancy.policy import Actor

T0: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
V100_MIB: Final = 32_510


def a_pool(name: str = "default", **columns: Any) -> Pool:
    return Pool.objects.create(name=name, created_at=T0, **{"kinds": ["environment", "job"], **columns})


def a_node(pool: Pool, name: str = "node-1", *, devices: int = 0, token: str = "", **columns: Any) -> Node:
    """A ready node with 48 cores and 384 GiB, and ``devices`` V100 cards."""
    values: dict[str, Any] = {
        "duty": Duty.IN_SERVICE,
        "liveness": Liveness.READY,
        "token_digest": sha256((token or name).encode()).digest(),
        "fingerprint": f"print-of-{name}",
        "machine_cpu_milli": 48_000,
        "cpu_milli": 48_000,
        "memory_mib": 393_216,
        "enrolled_at": T0,
        "last_heartbeat_at": T0,
        "state_changed_at": T0,
    }
    node = Node.objects.create(pool=pool, name=name, **{**values, **columns})
    for index in range(devices):
        a_device(node, f"GPU-{name}-{index}")
    return node


def a_device(node: Node, uuid: str, **columns: Any) -> Device:
    values = {"model": "Tesla V100-SXM2-32GB", "memory_mib": V100_MIB, "seen_at": T0}
    return Device.objects.create(node=node, uuid=uuid, **{**values, **columns})


def a_platform_admin() -> Actor:
    return Actor(1, "root", is_platform_admin=True)


def card(uuid: str = "GPU-1", **facts: Any) -> DeviceFacts:
    return DeviceFacts(**{"uuid": uuid, "model": "Tesla V100-SXM2-32GB", "memory_mib": V100_MIB, **facts})


def facts_of(node: Node, *cards: DeviceFacts, **facts: Any) -> NodeFacts:
    """What the node's own agent says when nothing has changed."""
    values: dict[str, Any] = {
        "fingerprint": node.fingerprint,
        "boot_id": "boot-1",
        "agent_version": "1.0",
        "address": "10.0.0.1",
        "cpu_milli": 48_000,
        "memory_mib": 393_216,
        "runtime": "docker",
        "devices": cards,
    }
    return NodeFacts(**{**values, **facts})


def beat(node: Node, *cards: DeviceFacts, now: datetime = T0, **facts: Any) -> Beat:
    """One heartbeat of the node's own agent."""
    return record_heartbeat(node_id=node.pk, facts=facts_of(node, *cards, **facts), now=now, allow_process_runtime=True)
