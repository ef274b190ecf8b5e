"""Every cell of the table, legal and illegal, and every combination of two tasks' phases."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aistation.workloads.lifecycle import (
    ENDED,
    HOLDING,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    Event,
    IllegalTransitionError,
    Kind,
    Phase,
    Reason,
    State,
    TaskOutcome,
    end_event,
    is_terminal,
    judge,
    moves_on,
    next_state,
    task_reason,
)

ENDS = [event for event in Event if event.startswith("end_")]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_cell_of_the_table_is_either_listed_or_refused(kind: Kind) -> None:
    for state, event in product(State, Event):
        if (state, event) in TRANSITIONS[kind]:
            assert next_state(kind, state, event) == TRANSITIONS[kind][state, event]
        else:
            with pytest.raises(IllegalTransitionError):
                next_state(kind, state, event)


def test_a_terminal_job_never_moves_again() -> None:
    for state, event in product(TERMINAL[Kind.JOB], Event):
        assert (state, event) not in TRANSITIONS[Kind.JOB]


def test_an_environment_at_rest_only_resumes() -> None:
    for state in TERMINAL[Kind.ENVIRONMENT]:
        assert [event for event in Event if (state, event) in TRANSITIONS[Kind.ENVIRONMENT]] == [Event.RESUME]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_holding_state_can_be_stopped_and_can_end(kind: Kind) -> None:
    reachable = set(TRANSITIONS[kind].values()) & HOLDING
    for state in reachable:
        assert state is State.STOPPING or (state, Event.STOP) in TRANSITIONS[kind]
        for reason in Reason:
            assert (state, end_event(kind, reason, retries_left=0)) in TRANSITIONS[kind]
            assert (state, end_event(kind, reason, retries_left=1)) in TRANSITIONS[kind]


@pytest.mark.parametrize("kind", list(Kind))
def test_what_waits_can_be_cancelled_at_any_moment(kind: Kind) -> None:
    reachable = (set(TRANSITIONS[kind].values()) | {State.QUEUED}) & WAITING
    for state in reachable:
        assert is_terminal(kind, next_state(kind, state, end_event(kind, Reason.USER_STOPPED, retries_left=0)))


@pytest.mark.parametrize(
    ("reason", "retries_left", "event"),
    [
        (Reason.COMPLETED, 3, Event.END_OK),
        (Reason.EXIT_NONZERO, 0, Event.END_FAILED),
        (Reason.EXIT_NONZERO, 1, Event.END_RETRY),
        (Reason.OOM_HOST, 5, Event.END_FAILED),
        (Reason.USER_STOPPED, 5, Event.END_CANCELLED),
        (Reason.TIME_LIMIT, 5, Event.END_TIMED_OUT),
        (Reason.PREEMPTED, 0, Event.END_RETRY),
        (Reason.NODE_LOST, 0, Event.END_FAILED),
    ],
)
def test_how_a_job_ends(reason: Reason, retries_left: int, event: Event) -> None:
    assert end_event(Kind.JOB, reason, retries_left=retries_left) == event


phases = st.sampled_from(Phase)
outcomes = st.builds(
    TaskOutcome,
    rank=st.integers(0, 7),
    phase=phases,
    exit_code=st.sampled_from([None, 0, 1, 137]),
    oom_killed=st.booleans(),
    error=st.sampled_from(["", "image_pull", "runtime", "something_new"]),
)


@given(st.lists(outcomes, min_size=1, max_size=4), st.sampled_from([None, *Reason]))
def test_any_set_of_tasks_gives_one_verdict_and_over_means_all_ended(
    tasks: list[TaskOutcome], stop_reason: Reason | None
) -> None:
    """B022: no combination of children leaves the parent without an answer."""
    verdict = judge(tasks, stop_reason)
    assert verdict.over == all(task.phase in ENDED for task in tasks)
    if verdict.over:
        assert verdict.reason is not None
        assert verdict.event is None
    assert judge(list(reversed(tasks)), stop_reason).event == verdict.event


@pytest.mark.parametrize(("first", "second"), list(product(Phase, Phase)))
def test_every_pair_of_phases_is_judged(first: Phase, second: Phase) -> None:
    """B022."""
    tasks = [TaskOutcome(0, first, exit_code=0), TaskOutcome(1, second, exit_code=0)]
    verdict = judge(tasks, None)
    bad = {Phase.FAILED, Phase.GONE} & {first, second}
    both_ended = first in ENDED and second in ENDED
    if both_ended:
        assert verdict.reason is (Reason.AGENT_ERROR if bad else Reason.COMPLETED)
    elif bad:
        assert verdict.event is Event.STOP
    else:
        assert verdict.event in {None, Event.PULL, Event.CREATE, Event.START}


def test_a_child_killed_for_memory_is_an_out_of_memory_end_even_with_exit_code_0() -> None:
    """B044."""
    assert task_reason(TaskOutcome(0, Phase.EXITED, exit_code=0, oom_killed=True)) is Reason.OOM_HOST


def test_stopping_the_node_is_never_the_users_success_or_failure() -> None:
    """B045."""
    assert task_reason(TaskOutcome(0, Phase.FAILED, error="node_interrupted")) is Reason.NODE_LOST


@given(phases, phases)
def test_a_late_report_never_moves_a_task_back(before: Phase, after: Phase) -> None:
    if moves_on(before, after):
        assert before not in ENDED
        assert not moves_on(after, before) or {before, after} == {Phase.RUNNING, Phase.PAUSED}
