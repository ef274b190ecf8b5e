"""Keep the table of cards like what the nodes report.

Figures are written each time, in one statement; the rest only when it changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Q

from aistation.fleet.models import Device, Liveness, Node
from aistation.fleet.services.rarely import note_rarely


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A card as its driver describes it. None: not reported."""

    uuid: str
    model: str
    memory_mib: int | None
    memory_used_mib: int | None = None
    utilisation_percent: int | None = None
    temperature_c: int | None = None
    power_mw: int | None = None
    healthy: bool = True
    reason: str = ""
    simulated: bool = False


_FIGURES: Final = ("memory_used_mib", "utilisation_percent", "temperature_c", "power_mw")
_DESCRIBED: Final = ("node_id", "model", "memory_mib", "memory_over_mib", "present", "healthy", "reason", "simulated")
_MATTERS: Final = ("node_id", "model", "memory_mib", "usable")
"""Changes of these may let work start, or show on the cluster map."""


def update_devices(node: Node, reported: Sequence[DeviceFacts], error: str, now: datetime) -> bool:
    """Make the rows of the node's cards say what was reported. ``node`` is locked.

    A card is known by its UUID: one that was moved here from another machine keeps its row, unless something is
    booked on it or that machine still reports it; then it stays there, and an audit event says so.
    True when it may matter to the scheduler or the cluster map.
    """
    facts = {card.uuid: card for card in reported}
    found = Device.objects.filter(Q(node=node) | Q(uuid__in=facts))
    devices = {device.uuid: device for device in found}  # another node is loaded only for a card that moved
    stale = [device for device in devices.values() if _bring_up_to_date(device, node, facts, error)]
    mattered = bool(stale) and _write(stale, node, facts, error)
    fresh = [_new_device(node, card, now) for uuid, card in facts.items() if uuid not in devices]
    Device.objects.bulk_create(fresh, ignore_conflicts=True)  # two nodes may name a new card at once
    for device in devices.values():
        if device.uuid in facts and device.node_id != node.pk:
            after = {"uuid": device.uuid, "node": device.node.name}
            note_rarely(node_id=node.pk, action="device.claimed_twice", now=now, after=after)
    _write_figures(node, [card for uuid, card in facts.items() if uuid in devices], now)
    return mattered or bool(fresh)


def _write(stale: Sequence[Device], node: Node, facts: Mapping[str, DeviceFacts], error: str) -> bool:
    """Read the rows again under lock, so that what is taken of them is the present number, and write them."""
    ids = [device.pk for device in stale]
    rows = list(Device.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk"))
    mattered = False
    for device in rows:
        before = [getattr(device, name) for name in _MATTERS]
        _bring_up_to_date(device, node, facts, error)
        mattered |= before != [getattr(device, name) for name in _MATTERS]
    Device.objects.bulk_update(rows, ["node", *_DESCRIBED[1:], *_FIGURES])
    return mattered


def _bring_up_to_date(device: Device, node: Node, facts: Mapping[str, DeviceFacts], error: str) -> bool:
    """Set the columns of one row; True when any of them changed."""
    before = [getattr(device, column) for column in _DESCRIBED]
    card = facts.get(device.uuid)
    if card is None:
        device.present = False
        device.reason = error or "The node no longer reports this card."
        for figure in _FIGURES:
            setattr(device, figure, None)
    elif device.node_id == node.pk or _may_move(device):
        device.node = node
        device.present = True
        device.model = card.model
        device.memory_mib = card.memory_mib
        device.memory_over_mib = device.memory_taken_mib if device.memory_taken_mib > (card.memory_mib or 0) else 0
        device.healthy = card.healthy
        device.reason = _reason(card)
        device.simulated = card.simulated
    return before != [getattr(device, column) for column in _DESCRIBED]


def _may_move(device: Device) -> bool:
    """Nothing is booked on the card, and the machine where it was is gone or no longer names it."""
    is_held = device.taken_milli > 0 or device.memory_taken_mib > 0
    is_there = device.present and device.node.removed_at is None and device.node.liveness == Liveness.READY
    return not is_held and not is_there


def _reason(card: DeviceFacts) -> str:
    if not card.reason and card.memory_mib is None:
        return "The card does not report its memory, so nothing is placed on it."
    return card.reason


def _new_device(node: Node, card: DeviceFacts, now: datetime) -> Device:
    return Device(
        uuid=card.uuid,
        node=node,
        model=card.model,
        memory_mib=card.memory_mib,
        healthy=card.healthy,
        reason=_reason(card),
        simulated=card.simulated,
        memory_used_mib=card.memory_used_mib,
        utilisation_percent=card.utilisation_percent,
        temperature_c=card.temperature_c,
        power_mw=card.power_mw,
        seen_at=now,
    )


def _write_figures(node: Node, cards: Sequence[DeviceFacts], now: datetime) -> None:
    if not cards:
        return
    numbers: dict[str, Any] = {
        "node": node.pk,
        "now": now,
        "uuid": [card.uuid for card in cards],
        "memory": [card.memory_used_mib for card in cards],
        "utilisation": [card.utilisation_percent for card in cards],
        "temperature": [card.temperature_c for card in cards],
        "power": [card.power_mw for card in cards],
    }
    with connection.cursor() as cursor:
        cursor.execute(_WRITE_FIGURES, numbers)


# Locked in id order before the first row is written, as in capacity.py.
_WRITE_FIGURES: Final = """
    WITH locked AS MATERIALIZED (
        SELECT id FROM fleet_device WHERE node_id = %(node)s AND uuid = ANY(%(uuid)s) ORDER BY id FOR NO KEY UPDATE
    )
    UPDATE fleet_device AS device SET
        memory_used_mib = card.memory, utilisation_percent = card.utilisation,
        temperature_c = card.temperature, power_mw = card.power, seen_at = %(now)s
    FROM unnest(%(uuid)s::text[], %(memory)s::int[], %(utilisation)s::int[], %(temperature)s::int[], %(power)s::int[])
        AS card(uuid, memory, utilisation, temperature, power)
    WHERE device.uuid = card.uuid AND device.node_id = %(node)s AND (SELECT count(*) FROM locked) > 0
"""
