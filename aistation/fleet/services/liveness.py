"""Judge the heartbeats, by the database's clock."""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction

from aistation.audit.services import SYSTEM, record
from aistation.core.dispatch import changed_on_commit
from aistation.fleet.lifecycle import Verdict, Watched, judge_silence
from aistation.fleet.models import Liveness, LivenessWatch, Node

logger = logging.getLogger(__name__)

OUR_OUTAGE: Final = timedelta(seconds=15)
"""No sweep for so long: we, or the database, were away, and the silence of the nodes says nothing."""
GRACE: Final = timedelta(seconds=60)
"""After our own outage nobody is declared lost for so long."""
LONGEST_FREEZE: Final = timedelta(seconds=300)
"""A part of the fleet that stays silent for so long while another part beats is lost."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Ids of the nodes that changed in this sweep."""

    suspect: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()


def sweep_liveness(now: datetime) -> Sweep:
    """Declare silent nodes suspect, then lost. ``now`` is the database's; a node comes back by its own heartbeat.

    Of several sweeps at once one does the work. Each node changes in a transaction of its own, and only if it has
    not beaten since it was read.
    """
    nodes = {node.pk: node for node in Node.objects.filter(last_heartbeat_at__isnull=False)}
    verdict = _judge(nodes.values(), now)
    if verdict is None:
        return Sweep()
    return Sweep(
        suspect=tuple(pk for pk in verdict.suspect if _change(nodes[pk], Liveness.SUSPECT, now)),
        lost=tuple(pk for pk in verdict.lost if _change(nodes[pk], Liveness.LOST, now)),
    )


@transaction.atomic
def _judge(nodes: Collection[Node], now: datetime) -> Verdict | None:
    """None: another sweep is at it."""
    LivenessWatch.objects.get_or_create(pk=1)
    watch = LivenessWatch.objects.select_for_update(skip_locked=True).filter(pk=1).first()
    if watch is None:
        return None
    if watch.swept_at is not None and now - watch.swept_at > OUR_OUTAGE:
        watch.grace_until = now + GRACE
        logger.warning("no sweep for %d s: no node is declared lost before %s", (now - watch.swept_at).seconds, GRACE)
    verdict = judge_silence(
        [Watched(node.pk, node.liveness, _silent_s(node, now)) for node in nodes],
        suspect_s=settings.NODE_SUSPECT_S,
        lost_s=settings.NODE_LOST_S,
        in_grace=watch.grace_until is not None and now < watch.grace_until,
        freeze_is_over=watch.frozen_since is not None and now - watch.frozen_since >= LONGEST_FREEZE,
    )
    if verdict.frozen and watch.frozen_since is None:
        logger.error("most nodes fell silent at once: none of them is declared lost")
        record(SYSTEM, now, "fleet.freeze", "node", "fleet")
    elif watch.frozen_since is not None and not verdict.frozen:
        logger.warning("nodes are declared lost again")
        record(SYSTEM, now, "fleet.unfreeze", "node", "fleet")
    watch.frozen_since = (watch.frozen_since or now) if verdict.frozen else None
    watch.swept_at = now
    watch.save()
    return verdict


def _silent_s(node: Node, now: datetime) -> float:
    return (now - node.last_heartbeat_at).total_seconds() if node.last_heartbeat_at else 0.0


@transaction.atomic
def _change(node: Node, liveness: Liveness, now: datetime) -> bool:
    """False: the node has beaten meanwhile."""
    unchanged = Node.objects.filter(pk=node.pk, liveness=node.liveness, last_heartbeat_at=node.last_heartbeat_at)
    if not unchanged.update(liveness=liveness, state_changed_at=now):
        return False
    logger.warning("node %s is %s: silent since %s", node.name, liveness.value, node.last_heartbeat_at)
    if liveness == Liveness.LOST:
        record(SYSTEM, now, "node.lost", "node", node.name)
    changed_on_commit("cluster")
    return True
