"""The cluster as people look at it: pools, their nodes, their cards, and on each card who has how much."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from aistation.fleet.selectors import PoolCapacity, list_capacity, list_lending, list_nodes, list_pools
from aistation.portal import units
from aistation.portal.hours import Opening, opening_of
from aistation.tenancy.policy import Actor
from aistation.workloads.occupancy import HeldShare, held_shares

if TYPE_CHECKING:
    from aistation.fleet.models import Device, Node, Pool

_UNCUT_PARTS: Final = 64
"""Parts of a strip that shows an uncut card; shares of it are as wide as their memory."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a card's strip, ``parts`` wide. ``look``: free, own, group or other. ``share`` None: free.
    ``is_lent``: it belongs to another pool's work."""

    look: str
    parts: int
    text: str
    share: HeldShare | None = None

    @property
    def is_lent(self) -> bool:
        return self.share is not None and self.share.is_lent


@dataclass(frozen=True, slots=True)
class Card:
    device: "Device"
    segments: Sequence[Segment]
    problem: str
    summary: str  # what of it is taken, in words

    @property
    def is_usable(self) -> bool:
        return not self.problem


@dataclass(frozen=True, slots=True)
class NodeRow:
    node: "Node"
    cards: Sequence[Card]
    warnings: Sequence[str]
    badges: Sequence[str]


@dataclass(frozen=True, slots=True)
class PoolMap:
    pool: "Pool"
    capacity: PoolCapacity
    nodes: Sequence[NodeRow]
    lending: Opening | None  # None: no rule lends its cards now; else until when one does


def cluster_map(actor: Actor, at: datetime) -> list[PoolMap]:
    """All pools by name. A fixed number of queries."""
    held = held_shares(actor)
    capacity = {row.pool: row for row in list_capacity(actor)}
    nodes: dict[int, list[NodeRow]] = {}
    for node in list_nodes(actor):
        nodes.setdefault(node.pool_id, []).append(_node_row(node, held))
    lending = _lending(actor, at)
    return [
        PoolMap(pool, capacity[pool.name], nodes.get(pool.pk, ()), lending.get(pool.pk)) for pool in list_pools(actor)
    ]


def _lending(actor: Actor, at: datetime) -> dict[int, Opening]:
    """By the lender, the open rule that closes last."""
    found: dict[int, Opening] = {}
    for rule in list_lending(actor):
        opening = opening_of(rule.windows, rule.time_zone, at)
        if not rule.enabled or not opening.is_open:
            continue
        known = found.get(rule.lender_id)
        if known is None or (known.closes_at and (opening.closes_at is None or opening.closes_at > known.closes_at)):
            found[rule.lender_id] = opening
    return found


def node_warnings(node: "Node") -> list[str]:
    """Why the node takes no work or less than it could, beyond its state."""
    warnings = []
    if node.runtime_error:
        warnings.append(_("The container engine does not work: %(error)s") % {"error": node.runtime_error})
    if node.devices_error:
        warnings.append(_("Its cards cannot be read: %(error)s") % {"error": node.devices_error})
    full = settings.DISK_FULL_PERCENT
    if node.disk_used_percent is not None and node.disk_used_percent >= full:
        numbers = {"used": node.disk_used_percent, "full": full}
        warnings.append(_("The disk is %(used)s %% full; work starts below %(full)s %%.") % numbers)
    return warnings


def node_badges(node: "Node") -> list[str]:
    """What one must know before trusting the node with work or with a measurement."""
    badges = []
    if node.simulated:
        badges.append(_("simulated"))
    if node.runtime == "process":
        badges.append(_("isolates nothing"))
    return badges


def _node_row(node: "Node", held: Mapping[int, Sequence[HeldShare]]) -> NodeRow:
    cards = [_card(device, node.pool.slices_per_gpu, held.get(device.pk, ())) for device in node.devices.all()]
    return NodeRow(node, cards, node_warnings(node), node_badges(node))


def _card(device: "Device", slices: int, shares: Sequence[HeldShare]) -> Card:
    all_parts = slices or _UNCUT_PARTS
    segments = [_segment(device, share, all_parts, is_cut=bool(slices)) for share in shares]
    left = max(0, all_parts - sum(segment.parts for segment in segments))
    free = _("free")
    if slices:
        segments += [Segment("free", 1, free)] * left
    elif left:
        segments.append(Segment("free", left, free))
    return Card(device, segments, _problem(device), _summary(device, slices, all_parts - left, shares))


def _segment(device: "Device", share: HeldShare, all_parts: int, *, is_cut: bool) -> Segment:
    look = "own" if share.is_own else "group" if share.is_own_group else "other"
    if share.whole:
        parts, size = all_parts, _("whole card")
    else:
        by_memory = -(-share.memory_mib * all_parts // device.memory_mib) if device.memory_mib else 0
        if is_cut:  # a slice is a little smaller than its part of the card: the pool keeps a reserve
            by_memory = -(-share.compute_milli * all_parts // 1000)
        parts = max(1, min(all_parts, by_memory))
        size = units.memory(share.memory_mib)
    if share.is_lent:
        size += " · " + _("lent")
    if share.is_visible:
        return Segment(look, parts, f"{share.name} · {share.username}, {share.group} · {size}", share)
    return Segment(look, parts, _("another group") + f" · {size}", share)


def _problem(device: "Device") -> str:
    if not device.present:
        return _("not there any more") + (f": {device.reason}" if device.reason else "")
    if not device.healthy:
        return device.reason or _("unhealthy")
    return _("its memory is unknown") if device.memory_mib is None else ""


def _summary(device: "Device", slices: int, taken: int, shares: Sequence[HeldShare]) -> str:
    if any(share.whole for share in shares):
        return _("whole card taken")
    if slices:
        numbers = {"taken": taken, "all": slices}
        return ngettext("%(taken)s of %(all)s slice taken", "%(taken)s of %(all)s slices taken", slices) % numbers
    sizes = {"taken": units.memory(device.memory_taken_mib), "all": units.memory(device.memory_mib or 0)}
    return _("%(taken)s of %(all)s taken") % sizes
