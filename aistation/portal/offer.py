"""What a person may choose from when asking for work: read once for a form, the same for check and page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from aistation.catalog.selectors import HOME, SHARED, list_folders, list_images, list_profiles
from aistation.fleet.selectors import PoolCapacity, list_capacity, list_pools
from aistation.portal import units
from aistation.tenancy.policy import Action, Actor, allows
from aistation.tenancy.selectors import list_groups
from aistation.workloads.lifecycle import Kind
from aistation.workloads.submission import DEFAULT_NAME

if TYPE_CHECKING:
    from aistation.catalog.models import Image, Profile
    from aistation.fleet.models import Pool

Choice = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Offer:
    """``pools`` with their free capacity in words; ``folders`` by what the submit takes as their key."""

    groups: Sequence[str]
    pools: Sequence[Choice]
    images: "Sequence[Image]"
    profiles: "Sequence[Profile]"
    folders: Sequence[Choice]
    models: Sequence[str]

    @property
    def is_ready(self) -> bool:
        """Something can be asked for at all."""
        return bool(self.groups and self.pools and self.images)

    @property
    def usual_group(self) -> str:
        return DEFAULT_NAME if DEFAULT_NAME in self.groups else next(iter(self.groups), "")

    @property
    def usual_pool(self) -> str:
        names = [name for name, _ in self.pools]
        return DEFAULT_NAME if DEFAULT_NAME in names else next(iter(names), "")


def offer_of(actor: Actor, kind: Kind) -> Offer:
    """A fixed number of queries."""
    capacity = {row.pool: row for row in list_capacity(actor)}
    pools = [pool for pool in list_pools(actor) if kind in pool.kinds]
    groups = [group.name for group in list_groups(actor) if allows(actor, Action.SUBMIT_WORKLOAD, group_id=group.pk)]
    return Offer(
        groups=groups,
        pools=[(pool.name, _pool_text(pool, capacity[pool.name])) for pool in pools],
        images=list(list_images(actor, kind)),
        profiles=list(list_profiles(actor, kind)),
        folders=_folders(actor),
        models=[],
    )


def _pool_text(pool: "Pool", capacity: PoolCapacity) -> str:
    if not capacity.usable_cards:
        return pool.name
    free = _("%(free)s of %(all)s cards free") % {"free": capacity.free_cards, "all": capacity.usable_cards}
    return f"{pool.name} – {free}"


def free_text(capacity: PoolCapacity) -> str:
    """ "14 of 32 cards free, 112 slices" """
    if not capacity.usable_cards:
        cores = units.thousandths(capacity.free_cpu_milli)
        return _("no usable card, %(cores)s cores free") % {"cores": cores}
    text = _("%(free)s of %(all)s cards free") % {"free": capacity.free_cards, "all": capacity.usable_cards}
    if capacity.usable_slices:
        text += ", " + _("%(free)s slices") % {"free": capacity.free_slices}
    return text


def _folders(actor: Actor) -> list[Choice]:
    """``home`` and ``shared`` always exist, whether or not their rows were made yet."""
    named = [(HOME, _("home (your own)")), (SHARED, _("shared (of the group)"))]
    for folder in list_folders(actor):
        if folder.name in (HOME, SHARED):
            continue
        owner = folder.group.name if folder.group else _("your own")
        named.append((folder.uid, f"{folder.name} ({owner})"))
    return named
