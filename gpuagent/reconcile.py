"""The difference between what the server wants and what this node has. Pure: no I/O, no clock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agentapi.v1 import ContainerPhase
from gpuagent.lifecycle import is_ended


class ContainerState(StrEnum):
    """What a runtime says of a container that it has."""

    CREATED = "created"  # never started
    RUNNING = "running"
    PAUSED = "paused"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A task of the desired state, with how far this agent has come with it.

    ``busy``: an operation on it is under way, whose end triggers another look. ``desired`` false: the server
    no longer names it; what runs is then the server's to judge, what does not yet run is given up.
    """

    nonce: str
    stop: bool = False
    phase: ContainerPhase = ContainerPhase.UNKNOWN
    busy: bool = False
    desired: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """A container with our labels."""

    task_id: str
    nonce: str
    container_id: str
    state: ContainerState


@dataclass(frozen=True, slots=True, order=True)
class Stop:
    """End the container, if there is one yet; or, when it is still being started, give the start up."""

    task_id: str
    container_id: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Forget:
    """The task was stopped before anything of it existed here."""

    task_id: str


@dataclass(frozen=True, slots=True, order=True)
class Lose:
    """The task had a container and it is no longer there."""

    task_id: str


@dataclass(frozen=True, slots=True, order=True)
class Adopt:
    """Take note of what the container of this task does now."""

    task_id: str
    container_id: str


@dataclass(frozen=True, slots=True, order=True)
class Start:
    task_id: str


@dataclass(frozen=True, slots=True, order=True)
class ReportForeign:
    """Our labels, but no task of ours: only the server may say what becomes of it."""

    task_id: str
    nonce: str
    container_id: str


_HAD_CONTAINER: Final = frozenset({ContainerPhase.RUNNING, ContainerPhase.PAUSED})

Action = Stop | Forget | Lose | Adopt | Start | ReportForeign
_ORDER: Final[tuple[type[Action], ...]] = (Stop, Forget, Lose, Adopt, Start, ReportForeign)


def reconcile(wanted: Mapping[str, Wanted], seen: Iterable[Seen]) -> tuple[Action, ...]:
    """What to do, the same for any order of the inputs: first what frees devices, last what takes them."""
    ours: dict[str, Seen] = {}
    actions: list[Action] = []
    for container in sorted(seen, key=lambda c: (c.task_id, c.container_id)):
        task = wanted.get(container.task_id)
        if task is None or task.nonce != container.nonce or container.task_id in ours:
            actions.append(ReportForeign(container.task_id, container.nonce, container.container_id))
        else:
            ours[container.task_id] = container
    for task_id, task in sorted(wanted.items()):
        if (action := _next_action(task_id, task, ours.get(task_id))) is not None:
            actions.append(action)
    return tuple(sorted(actions, key=lambda action: _ORDER.index(type(action))))


def _next_action(task_id: str, task: Wanted, container: Seen | None) -> Action | None:
    if is_ended(task.phase):
        return None  # only its report is left to deliver
    if task.phase in _HAD_CONTAINER and not task.busy:
        if container is None:
            return Lose(task_id)
        if not task.desired and not task.stop and container.state != ContainerState.EXITED:
            return ReportForeign(task_id, container.nonce, container.container_id)
    if task.stop or not task.desired:
        if task.busy:
            return Stop(task_id)
        if container is not None and container.state != ContainerState.EXITED:
            return Stop(task_id, container.container_id)
        return Adopt(task_id, container.container_id) if container else Forget(task_id)
    if task.busy:
        return None
    if container is None or container.state == ContainerState.CREATED:
        return Start(task_id)
    return Adopt(task_id, container.container_id)
