"""The queue: who is next in each pool, and what everybody waits for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from aistation.fleet.selectors import list_capacity
from aistation.portal.listing import UNSHOWN
from aistation.portal.offer import free_text
from aistation.portal.pages import Request, show, signed_in
from aistation.portal.reasons import Told, tell_all
from aistation.tenancy.policy import Action, Actor, allows
from aistation.workloads.occupancy import KeptRoom, by_pool, kept_rooms
from aistation.workloads.selectors import count_queued, list_waiting, queue, queue_positions

if TYPE_CHECKING:
    from aistation.workloads.models import Workload

SHOWN: Final = 100
"""Of each pool, from the front. A person's own are shown wherever they are."""


@dataclass(frozen=True, slots=True)
class Place:
    """``is_visible`` false: it is another group's, so neither name, person nor numbers of its quota are shown."""

    workload: "Workload"
    position: int
    is_visible: bool
    is_own: bool
    reasons: Sequence[Told]


@dataclass(frozen=True, slots=True)
class PoolQueue:
    pool: str
    free: str
    places: Sequence[Place]
    total: int
    kept: Sequence[KeptRoom]

    @property
    def more(self) -> int:
        return self.total - len(self.places)


@signed_in
@require_GET
def waiting(request: Request) -> HttpResponse:
    actor = request.actor
    totals = count_queued()
    places: dict[str, list[Place]] = {}
    front = queue().filter(position__lte=SHOWN).defer(*UNSHOWN)  # type: ignore[misc]  # `queue` annotates it
    for workload in front:
        places.setdefault(workload.pool.name, []).append(_place(actor, workload, workload.position))  # type: ignore[attr-defined]
    kept = by_pool(kept_rooms(actor))
    pools = [
        PoolQueue(row.pool, free_text(row), places.get(row.pool, []), totals.get(row.pool, 0), kept.get(row.pool, ()))
        for row in list_capacity(actor)
    ]
    context = {"pools": pools, "own": _own(actor), "topics": "queue cluster"}
    return show(request, "queue/queue.html", context, partial="queue/_queue.html")


def _own(actor: Actor) -> list[Place]:
    """What this person has waiting, held ones last (position 0)."""
    mine = list_waiting(actor).filter(user_id=actor.user_id).defer(*UNSHOWN)
    rows = list(mine.order_by("pool__name", "-priority", "queued_at")[:SHOWN])
    positions = queue_positions(rows)
    found = [_place(actor, row, positions.get(row.pk, 0)) for row in rows]
    return sorted(found, key=lambda place: (place.position == 0, place.workload.pool.name, place.position))


def _place(actor: Actor, workload: "Workload", position: int) -> Place:
    owned = {"group_id": workload.group_id, "owner_id": workload.user_id}
    is_visible = allows(actor, Action.VIEW_WORKLOAD, **owned)
    reasons = tell_all(workload.pending_reasons)
    if not is_visible:  # only the words: the sentences name groups and people
        reasons = [Told(told.code, told.word, "") for told in reasons]
    return Place(workload, position, is_visible, workload.user_id == actor.user_id, reasons)
