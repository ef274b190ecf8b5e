"""Writes of the fleet: pools, nodes, cards, and what of them is taken."""

from aistation.fleet.models import Duty
from aistation.fleet.services.capacity import (
    DeviceAmount,
    NodeAmount,
    bump_desired,
    give_back_device,
    give_back_devices,
    give_back_node,
    give_back_nodes,
    node_group,
    take_device,
    take_devices,
    take_node,
    take_nodes,
)
from aistation.fleet.services.heartbeat import Beat, NodeFacts, record_heartbeat, refuse_identity
from aistation.fleet.services.inventory import DeviceFacts
from aistation.fleet.services.liveness import Sweep, sweep_liveness
from aistation.fleet.services.nodes import (
    EnrolledNode,
    NewJoinToken,
    create_join_token,
    digest_of,
    enrol_node,
    remove_node,
    revoke_join_token,
    set_duty,
)
from aistation.fleet.services.pools import POOL_FIELDS, change_pool, create_pool

__all__ = [
    "POOL_FIELDS",
    "Beat",
    "DeviceAmount",
    "DeviceFacts",
    "Duty",
    "EnrolledNode",
    "NewJoinToken",
    "NodeAmount",
    "NodeFacts",
    "Sweep",
    "bump_desired",
    "change_pool",
    "create_join_token",
    "create_pool",
    "digest_of",
    "enrol_node",
    "give_back_device",
    "give_back_devices",
    "give_back_node",
    "give_back_nodes",
    "node_group",
    "record_heartbeat",
    "refuse_identity",
    "remove_node",
    "revoke_join_token",
    "set_duty",
    "sweep_liveness",
    "take_device",
    "take_devices",
    "take_node",
    "take_nodes",
]
