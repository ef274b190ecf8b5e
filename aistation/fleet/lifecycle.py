"""What silence means. Pure: from how long each node has been silent to which are suspect and which are lost."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Watched:
    """A node that has beaten at least once. ``silent_s``: since its last heartbeat."""

    node_id: int
    liveness: str  # ready, suspect or lost
    silent_s: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Nodes whose liveness changes, by id. ``frozen``: some are overdue, but so much of the fleet is silent at once
    that we may be the ones who are away; then nobody is declared lost."""

    suspect: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    frozen: bool = False
    all_silent: bool = False


def judge_silence(
    nodes: Collection[Watched], *, suspect_s: int, lost_s: int, in_grace: bool, freeze_is_over: bool
) -> Verdict:
    """Who is suspect and who is lost.

    More than half of at least two nodes silent together is frozen. The freeze ends when they come back, or by
    ``freeze_is_over`` if at least one node still beats, which proves that heartbeats reach us.
    ``in_grace``: we were away ourselves a moment ago, so nobody is declared lost.
    """
    known = [node for node in nodes if node.liveness != "lost"]
    silent = [node for node in known if node.silent_s >= suspect_s]
    overdue = {node.node_id for node in silent if node.silent_s >= lost_s}
    all_silent = len(silent) == len(known)
    frozen = bool(overdue) and len(known) >= 2 and 2 * len(silent) > len(known)
    if in_grace or (frozen and (all_silent or not freeze_is_over)):
        overdue = set()
    else:
        frozen = False
    suspect = {node.node_id for node in silent if node.liveness == "ready"} - overdue
    return Verdict(tuple(sorted(suspect)), tuple(sorted(overdue)), frozen, all_silent)
