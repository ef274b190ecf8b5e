"""The agent's pure diff: by a table of all single cases, and by properties over many tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentapi.v1 import ContainerPhase as P
from gpuagent.reconcile import (
    Action,
    Adopt,
    ContainerState,
    Forget,
    Lose,
    ReportForeign,
    Seen,
    Start,
    Stop,
    Wanted,
    reconcile,
)

_CREATED, _RUNNING, _EXITED = ContainerState.CREATED, ContainerState.RUNNING, ContainerState.EXITED


def _wanted(phase: P = P.UNKNOWN, *, stop: bool = False, busy: bool = False, desired: bool = True) -> Wanted:
    return Wanted("n", stop=stop, phase=phase, busy=busy, desired=desired)


_TABLE: dict[str, tuple[Wanted | None, ContainerState | None, Action | None]] = {
    "new task": (_wanted(), None, Start("t")),
    "created, the agent died before the start": (_wanted(P.STARTING), _CREATED, Start("t")),
    "being started": (_wanted(P.PULLING, busy=True), None, None),
    "start under way": (_wanted(P.STARTING, busy=True), _RUNNING, None),
    "found running": (_wanted(), _RUNNING, Adopt("t", "c")),
    "found ended": (_wanted(P.RUNNING), _EXITED, Adopt("t", "c")),
    "goes on running": (_wanted(P.RUNNING), _RUNNING, Adopt("t", "c")),
    "vanished while running": (_wanted(P.RUNNING), None, Lose("t")),
    "vanished while paused": (_wanted(P.PAUSED), None, Lose("t")),
    "ended and reported": (_wanted(P.EXITED), _EXITED, None),
    "ended and cleared away": (_wanted(P.FAILED), None, None),
    "stop a running one": (_wanted(P.RUNNING, stop=True), _RUNNING, Stop("t", "c")),
    "stop a paused one": (_wanted(P.PAUSED, stop=True), ContainerState.PAUSED, Stop("t", "c")),
    "stop a created one": (_wanted(P.STARTING, stop=True), _CREATED, Stop("t", "c")),
    "stop one that has ended": (_wanted(P.RUNNING, stop=True), _EXITED, Adopt("t", "c")),
    "stop one that never was": (_wanted(stop=True), None, Forget("t")),
    "stop one that is being started": (_wanted(P.PULLING, stop=True, busy=True), None, Stop("t")),
    "stop one whose start is nearly done": (_wanted(P.STARTING, stop=True, busy=True), _RUNNING, Stop("t")),
    "stop one that vanished": (_wanted(P.RUNNING, stop=True), None, Lose("t")),
    "dropped before it began": (_wanted(desired=False), None, Forget("t")),
    "dropped while it is being started": (_wanted(P.PULLING, desired=False, busy=True), None, Stop("t")),
    "dropped just before it was seen running": (_wanted(P.STARTING, desired=False), _RUNNING, Stop("t", "c")),
    "dropped while running": (_wanted(P.RUNNING, desired=False), _RUNNING, ReportForeign("t", "n", "c")),
    "dropped and stopped": (_wanted(P.RUNNING, desired=False, stop=True), _RUNNING, Stop("t", "c")),
    "dropped while running, and ended": (_wanted(P.RUNNING, desired=False), _EXITED, Adopt("t", "c")),
    "dropped while running, and vanished": (_wanted(P.RUNNING, desired=False), None, Lose("t")),
    "nobody's": (None, _RUNNING, ReportForeign("t", "n", "c")),
    "nobody's and ended": (None, _EXITED, ReportForeign("t", "n", "c")),
}


@pytest.mark.parametrize("case", _TABLE)
def test_each_case_has_one_answer(case: str) -> None:
    wanted, state, action = _TABLE[case]
    seen = [] if state is None else [Seen("t", "n", "c", state)]
    assert reconcile({} if wanted is None else {"t": wanted}, seen) == (() if action is None else (action,))


def test_a_container_with_another_nonce_is_foreign_and_the_task_is_started_besides() -> None:
    """B072."""
    actions = reconcile({"t": _wanted()}, [Seen("t", "other", "c", _RUNNING)])
    assert actions == (Start("t"), ReportForeign("t", "other", "c"))


def test_of_two_containers_of_one_task_one_is_foreign() -> None:
    seen = [Seen("t", "n", "b", _RUNNING), Seen("t", "n", "a", _RUNNING)]
    assert reconcile({"t": _wanted(P.RUNNING)}, seen) == (Adopt("t", "a"), ReportForeign("t", "n", "b"))


_ids = st.sampled_from(["a", "b", "c", "d", "e"])
_wanteds = st.builds(
    Wanted,
    nonce=st.sampled_from(["n", "m"]),
    stop=st.booleans(),
    phase=st.sampled_from(list(P)),
    busy=st.booleans(),
    desired=st.booleans(),
)
_seens = st.builds(
    Seen,
    task_id=_ids,
    nonce=st.sampled_from(["n", "m"]),
    container_id=st.uuids().map(str),
    state=st.sampled_from(list(ContainerState)),
)


@given(st.dictionaries(_ids, _wanteds), st.lists(_seens, max_size=8))
def test_the_order_of_the_inputs_does_not_matter(wanted: dict[str, Wanted], seen: list[Seen]) -> None:
    expected = reconcile(wanted, seen)
    shuffled_keys = list(reversed(wanted.items()))
    assert reconcile(dict(shuffled_keys), list(reversed(seen))) == expected


@given(st.dictionaries(_ids, _wanteds), st.lists(_seens, max_size=8))
def test_what_frees_devices_comes_before_what_takes_them(wanted: dict[str, Wanted], seen: list[Seen]) -> None:
    kinds = [type(action) for action in reconcile(wanted, seen)]
    stops = [index for index, kind in enumerate(kinds) if kind is Stop]
    starts = [index for index, kind in enumerate(kinds) if kind is Start]
    assert max(stops, default=-1) < min(starts, default=len(kinds))


@given(st.dictionaries(_ids, _wanteds), st.lists(_seens, max_size=8))
def test_nothing_is_stopped_that_is_not_ours_nor_started_that_was_stopped(
    wanted: dict[str, Wanted], seen: list[Seen]
) -> None:
    """B072, I4: and each task gets at most one action of its own."""
    actions = reconcile(wanted, seen)
    by_id = {container.container_id: container for container in seen}
    own = [action.task_id for action in actions if not isinstance(action, ReportForeign)]
    assert len(own) == len(set(own))
    for action in actions:
        if isinstance(action, Stop) and action.container_id:
            assert by_id[action.container_id].nonce == wanted[action.task_id].nonce
        if isinstance(action, Start):
            task = wanted[action.task_id]
            assert not task.stop
            assert task.desired
            assert not task.busy
