"""The phases of a task: every pair, legal and illegal."""

from itertools import product

import pytest

from agentapi.v1 import ContainerPhase as P
from gpuagent.lifecycle import ENDED, TRANSITIONS, is_ended, may_follow

_LEGAL = {
    *product([P.UNKNOWN], set(P) - {P.UNKNOWN}),
    *product([P.PULLING], {P.STARTING, P.RUNNING, P.EXITED, P.FAILED, P.GONE}),
    *product([P.STARTING], {P.RUNNING, P.PAUSED, P.EXITED, P.FAILED, P.GONE}),
    *product([P.RUNNING], {P.PAUSED, P.EXITED, P.GONE}),
    *product([P.PAUSED], {P.RUNNING, P.EXITED, P.GONE}),
}


@pytest.mark.parametrize(("before", "after"), list(product(P, P)))
def test_each_pair_is_legal_or_not(before: P, after: P) -> None:
    assert may_follow(before, after) is ((before, after) in _LEGAL)


def test_every_phase_is_in_the_table_and_ends_are_final() -> None:
    assert set(TRANSITIONS) == set(P)
    assert all(not TRANSITIONS[phase] for phase in ENDED)
    assert [phase for phase in P if is_ended(phase)] == [P.EXITED, P.FAILED, P.GONE]
