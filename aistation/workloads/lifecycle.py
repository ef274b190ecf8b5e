"""States of a workload. Pure: one table of transitions for jobs and environments, and the rules that read tasks.

``services.apply_event`` is the only writer of ``Workload.state``, and it asks `next_state`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    ENVIRONMENT = "environment"
    JOB = "job"


class State(StrEnum):
    HELD = "held"
    QUEUED = "queued"
    SCHEDULED = "scheduled"
    PULLING = "pulling"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    PREEMPTING = "preempting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"  # an environment at rest; it can start again


class Reason(StrEnum):
    """Why a workload ended, or is being ended."""

    COMPLETED = "completed"
    USER_STOPPED = "user_stopped"
    EXIT_NONZERO = "exit_nonzero"
    OOM_HOST = "oom_host"
    OOM_GPU = "oom_gpu"
    NODE_LOST = "node_lost"
    PREEMPTED = "preempted"
    RECLAIMED = "reclaimed"
    IDLE_TIMEOUT = "idle_timeout"
    LIFETIME = "lifetime"
    TIME_LIMIT = "time_limit"
    IMAGE_PULL = "image_pull"
    QUOTA_REVOKED = "quota_revoked"
    AGENT_ERROR = "agent_error"


class Event(StrEnum):
    SUBMIT = "submit"
    HOLD = "hold"
    RELEASE = "release"
    PLACE = "place"  # resources are booked, a new attempt begins
    PULL = "pull"
    CREATE = "create"
    START = "start"  # all tasks run
    STOP = "stop"  # an end is wanted; containers may still live
    PREEMPT = "preempt"
    END_OK = "end_ok"
    END_FAILED = "end_failed"
    END_CANCELLED = "end_cancelled"
    END_TIMED_OUT = "end_timed_out"
    END_STOPPED = "end_stopped"
    END_RETRY = "end_retry"  # back to the queue, same id, same place
    RESUME = "resume"  # a stopped environment is asked for again


ENDS: Final = (
    Event.END_OK, Event.END_FAILED, Event.END_CANCELLED, Event.END_TIMED_OUT, Event.END_STOPPED, Event.END_RETRY,
)  # fmt: skip
"""Events by which an attempt ends."""
WAITING: Final = frozenset({State.HELD, State.QUEUED})
HOLDING: Final = frozenset(
    {State.SCHEDULED, State.PULLING, State.STARTING, State.RUNNING, State.STOPPING, State.PREEMPTING}
)
"""States in which an attempt is under way and resources may be held."""
WANTED: Final = frozenset({State.SCHEDULED, State.PULLING, State.STARTING, State.RUNNING})
"""States in which the containers should exist; in every other state the node is told to stop them."""
TERMINAL: Final[Mapping[Kind, frozenset[State]]] = {
    Kind.JOB: frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.TIMED_OUT}),
    Kind.ENVIRONMENT: frozenset({State.STOPPED, State.FAILED}),
}

_ENDS_JOB: Final = {
    Event.END_OK: State.SUCCEEDED,
    Event.END_FAILED: State.FAILED,
    Event.END_CANCELLED: State.CANCELLED,
    Event.END_TIMED_OUT: State.TIMED_OUT,
    Event.END_RETRY: State.QUEUED,
}
_ENDS_ENVIRONMENT: Final = {Event.END_STOPPED: State.STOPPED, Event.END_FAILED: State.FAILED}


def _job() -> dict[tuple[State, Event], State]:
    table = {
        (State.QUEUED, Event.HOLD): State.HELD,
        (State.HELD, Event.RELEASE): State.QUEUED,
        (State.QUEUED, Event.PLACE): State.SCHEDULED,
        (State.QUEUED, Event.END_CANCELLED): State.CANCELLED,
        (State.HELD, Event.END_CANCELLED): State.CANCELLED,
        (State.QUEUED, Event.END_FAILED): State.FAILED,
        (State.HELD, Event.END_FAILED): State.FAILED,
        (State.SCHEDULED, Event.PULL): State.PULLING,
        (State.SCHEDULED, Event.CREATE): State.STARTING,
        (State.PULLING, Event.CREATE): State.STARTING,
        (State.SCHEDULED, Event.START): State.RUNNING,
        (State.PULLING, Event.START): State.RUNNING,
        (State.STARTING, Event.START): State.RUNNING,
        (State.PREEMPTING, Event.STOP): State.STOPPING,
    }
    for state in WANTED:
        table[state, Event.STOP] = State.STOPPING
        table[state, Event.PREEMPT] = State.PREEMPTING
    for state in HOLDING:
        table |= {(state, event): end for event, end in _ENDS_JOB.items()}
    return table


def _environment() -> dict[tuple[State, Event], State]:
    table = {
        (State.QUEUED, Event.PLACE): State.STARTING,
        (State.QUEUED, Event.END_STOPPED): State.STOPPED,
        (State.QUEUED, Event.END_FAILED): State.FAILED,
        (State.STARTING, Event.START): State.RUNNING,
        (State.STARTING, Event.STOP): State.STOPPING,
        (State.RUNNING, Event.STOP): State.STOPPING,
        (State.STOPPED, Event.RESUME): State.QUEUED,
        (State.FAILED, Event.RESUME): State.QUEUED,
    }
    for state in (State.STARTING, State.RUNNING, State.STOPPING):
        table |= {(state, event): end for event, end in _ENDS_ENVIRONMENT.items()}
    return table


TRANSITIONS: Final[Mapping[Kind, Mapping[tuple[State, Event], State]]] = {
    Kind.JOB: _job(),
    Kind.ENVIRONMENT: _environment(),
}


class IllegalTransitionError(Exception):
    """This event means nothing in this state."""


def next_state(kind: Kind, state: State, event: Event) -> State:
    """The state after ``event``. Raises IllegalTransitionError for a pair that is not in the table."""
    try:
        return TRANSITIONS[kind][state, event]
    except KeyError:
        raise IllegalTransitionError(f"{kind} {state}: {event}") from None


def is_terminal(kind: Kind, state: State) -> bool:
    return state in TERMINAL[kind]


RETRIED: Final = frozenset({Reason.EXIT_NONZERO, Reason.NODE_LOST, Reason.AGENT_ERROR, Reason.IMAGE_PULL})
"""Ends that ``max_retries`` covers. Running out of memory is not among them: it would happen again."""
_STOPS_ENVIRONMENT: Final = frozenset({Reason.COMPLETED, Reason.USER_STOPPED, Reason.IDLE_TIMEOUT, Reason.LIFETIME})


def end_event(kind: Kind, reason: Reason, *, retries_left: int) -> Event:
    """How an attempt that is over for ``reason`` ends its workload."""
    if kind is Kind.ENVIRONMENT:
        return Event.END_STOPPED if reason in _STOPS_ENVIRONMENT else Event.END_FAILED
    if reason in (Reason.PREEMPTED, Reason.RECLAIMED) or (reason in RETRIED and retries_left > 0):
        return Event.END_RETRY
    if reason is Reason.COMPLETED:
        return Event.END_OK
    if reason is Reason.USER_STOPPED:
        return Event.END_CANCELLED
    return Event.END_TIMED_OUT if reason is Reason.TIME_LIMIT else Event.END_FAILED


class Phase(StrEnum):
    """How far a task's container has come; the agent's words, and ``pending`` before its first report."""

    PENDING = "pending"
    PULLING = "pulling"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    EXITED = "exited"
    FAILED = "failed"
    GONE = "gone"


ENDED: Final = frozenset({Phase.EXITED, Phase.FAILED, Phase.GONE})
"""Phases of a task that holds nothing on its node any more."""
_ORDER: Final = {phase: rank for rank, phase in enumerate(Phase)} | {Phase.PAUSED: 3}


def moves_on(before: Phase, after: Phase) -> bool:
    """May a task go from ``before`` to ``after``? Reports come late and twice: never back, never out of an end."""
    return before not in ENDED and before != after and _ORDER[after] >= _ORDER[before]


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What is known of one task of an attempt."""

    rank: int
    phase: Phase
    exit_code: int | None = None
    oom_killed: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tasks together say of their workload.

    ``event`` None: no news. ``reason`` comes with STOP (one task failed, the others must end) and with ``over``.
    ``rank`` is the task that decided.
    """

    event: Event | None = None
    over: bool = False
    reason: Reason | None = None
    rank: int = 0


_ERROR_REASONS: Final[Mapping[str, Reason]] = {
    "image_pull": Reason.IMAGE_PULL,
    "image_unfit": Reason.EXIT_NONZERO,
    "node_interrupted": Reason.NODE_LOST,
}


def task_reason(task: TaskOutcome) -> Reason:
    """Why an ended task ended. A process that the kernel killed for memory counts, whatever the exit code says."""
    if task.oom_killed:
        return Reason.OOM_HOST
    if task.phase is Phase.EXITED:
        return Reason.COMPLETED if task.exit_code == 0 else Reason.EXIT_NONZERO
    return _ERROR_REASONS.get(task.error, Reason.AGENT_ERROR)


def judge(tasks: Collection[TaskOutcome], stop_reason: Reason | None) -> Verdict:
    """Every combination of task phases maps to exactly one verdict.

    With all tasks ended the attempt is over: for the reason for which a stop was asked, else for the first bad
    end by rank, else completed. With one bad end among living tasks the rest must stop.
    """
    ordered = sorted(tasks, key=lambda task: task.rank)
    ended = [task for task in ordered if task.phase in ENDED]
    bad = next((task for task in ended if task_reason(task) is not Reason.COMPLETED), None)
    if len(ended) == len(ordered):
        if stop_reason is not None:
            return Verdict(over=True, reason=stop_reason, rank=bad.rank if bad else 0)
        return Verdict(over=True, reason=task_reason(bad) if bad else Reason.COMPLETED, rank=bad.rank if bad else 0)
    if stop_reason is not None:
        return Verdict()
    if bad is not None:
        return Verdict(event=Event.STOP, reason=task_reason(bad), rank=bad.rank)
    return Verdict(event=_progress({task.phase for task in ordered}))


def _progress(phases: set[Phase]) -> Event | None:
    """The least advanced living task speaks for all; tasks that ended well count as running."""
    if Phase.PENDING in phases:
        return None
    if Phase.PULLING in phases:
        return Event.PULL
    return Event.CREATE if Phase.STARTING in phases else Event.START
