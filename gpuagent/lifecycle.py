"""How a task's phase on this node may change. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentapi.v1 import ContainerPhase as P

ENDED: Final = frozenset({P.EXITED, P.FAILED, P.GONE})

TRANSITIONS: Final[Mapping[P, frozenset[P]]] = MappingProxyType(
    {
        P.UNKNOWN: frozenset({P.PULLING, P.STARTING, P.RUNNING, P.PAUSED}) | ENDED,  # nothing done or known yet
        P.PULLING: frozenset({P.STARTING, P.RUNNING}) | ENDED,
        P.STARTING: frozenset({P.RUNNING, P.PAUSED}) | ENDED,
        P.RUNNING: frozenset({P.PAUSED, P.EXITED, P.GONE}),
        P.PAUSED: frozenset({P.RUNNING, P.EXITED, P.GONE}),
        P.EXITED: frozenset(),
        P.FAILED: frozenset(),
        P.GONE: frozenset(),
    }
)


def is_ended(phase: P) -> bool:
    """True when nothing of the task can run any more."""
    return phase in ENDED


def may_follow(before: P, after: P) -> bool:
    """True when ``after`` is news that a task in phase ``before`` can have."""
    return after in TRANSITIONS[before]
