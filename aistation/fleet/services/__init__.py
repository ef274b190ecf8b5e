"""Writes of the fleet: pools, nodes, cards, and what of them is taken."""

from aistation.fleet.services.capacity import (
    DeviceAmount,
    NodeAmount,
    bump_desired,
    give_back_device,
    give_back_devices,
    give_back_node,
    give_back_nodes,
    take_device,
    take_devices,
    take_node,
    take_nodes,
)

__all__ = [
    "DeviceAmount",
    "NodeAmount",
    "bump_desired",
    "give_back_device",
    "give_back_devices",
    "give_back_node",
    "give_back_nodes",
    "take_device",
    "take_devices",
    "take_node",
    "take_nodes",
]
