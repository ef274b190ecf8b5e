"""What the scheduler reads (`Snapshot`) and what it answers (`Plan`).

All quantities are integers: GPU memory and RAM in MiB, CPU in millicores, GPU compute in thousandths
of a card (milli), instants in microseconds since the epoch (UTC). ``None`` as a limit means unlimited,
0 means nothing. Ids are strings and the last key of every sort.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

WHOLE_CARD_MILLI: Final = 1000


class Reason(StrEnum):
    """Why a workload waits. The list is closed; the pages and the API show these words."""

    QUOTA_USER = "quota_user"
    QUOTA_GROUP = "quota_group"
    POOL_FULL = "pool_full"
    FRAGMENTED = "fragmented"
    NO_SUCH_DEVICE = "no_such_device"
    DEPENDENCY = "dependency"
    HELD = "held"
    RESERVED_FOR_OTHER = "reserved_for_other"
    WINDOW_CLOSED = "window_closed"
    NODE_UNAVAILABLE = "node_unavailable"


class Kind(StrEnum):
    ENVIRONMENT = "environment"
    JOB = "job"
    REPLICA = "replica"


class TakeBack(StrEnum):
    """How a pool gets its lent cards back: by waiting for jobs that were only let in when they end in time, or by
    asking jobs to save and leave, which may then be let in at any time."""

    WAIT = "wait"
    CHECKPOINT = "checkpoint"


class Cause(StrEnum):
    """Why a running workload is asked to leave."""

    PREEMPTED = "preempted"  # for work of higher claim
    RECLAIMED = "reclaimed"  # it is on lent cards that their pool needs, or whose window closes


class Strategy(StrEnum):
    """Where a task goes when several places fit: fill used cards and nodes first, or empty ones."""

    PACK = "pack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class Resources:
    """What one task asks for. ``gpus`` alone is whole cards; with one of the share fields it is that share of
    each of ``gpus`` different cards."""

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_slices: int | None = None
    gpu_memory_mib: int | None = None
    gpu_compute_milli: int | None = None
    gpu_model: str | None = None

    @property
    def wants_share(self) -> bool:
        """True when each card is shared rather than taken whole."""
        return (self.gpu_slices, self.gpu_memory_mib, self.gpu_compute_milli) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Share:
    """Part of one card, as granted. A whole card has ``whole``, all of its memory and 1000 milli."""

    device_id: str
    memory_mib: int
    compute_milli: int
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """One card with what is left of it. ``memory_mib`` is what it reports, ``free_*`` what nobody holds."""

    id: str  # UUID
    model: str
    memory_mib: int
    free_memory_mib: int
    free_milli: int
    usable: bool = True  # healthy, and its memory is known

    @property
    def is_empty(self) -> bool:
        return self.free_milli == WHOLE_CARD_MILLI and self.free_memory_mib == self.memory_mib


@dataclass(frozen=True, slots=True)
class Node:
    """A machine. CPU capacity already includes the pool's overcommit; ``schedulable`` is false for every state
    but ready."""

    id: str  # name
    pool_id: str
    cpu_milli: int
    memory_mib: int
    free_cpu_milli: int
    free_memory_mib: int
    devices: tuple[Device, ...] = ()
    schedulable: bool = True
    labels: frozenset[str] = frozenset()  # "key=value"


@dataclass(frozen=True, slots=True)
class Window:
    """A weekly span of wall-clock time in the time zone of its rule, e.g. Friday 20:00 to Monday 08:00.

    Minutes since Monday 00:00; ``end`` <= ``start`` runs over the week's end. See `scheduler.windows` for changes to
    and from daylight saving.
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LendingRule:
    """Cards of pool ``lender`` that are idle may run jobs of the queue of pool ``borrower``.

    No ``windows``: at any time. What stays unlent: ``keep_free_slices`` (a slice is a card's part in the lender's
    cut; an uncut card is one) and ``keep_free_cards`` (empty ones).
    """

    id: str
    lender: str
    borrower: str
    windows: tuple[Window, ...] = ()
    time_zone: str = "UTC"
    keep_free_slices: int = 0
    keep_free_cards: int = 0
    notice_s: int = 0  # before the window closes, work on lent cards is asked to leave
    take_back: TakeBack = TakeBack.WAIT


@dataclass(frozen=True, slots=True)
class Reserve:
    """A warm reserve: during ``windows`` the pool has room for environments of ``slices`` slices, in use or free.
    Lent cards are taken back for it, and none is lent that it needs."""

    id: str
    pool_id: str
    slices: int
    windows: tuple[Window, ...] = ()  # none: always
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Pool:
    """``slices_per_gpu`` 0: cards are uncut, memory is taken as asked."""

    id: str  # name
    kinds: frozenset[Kind]
    slices_per_gpu: int = 0
    gpu_reserve_mib: int = 512
    strategy: Strategy = Strategy.PACK
    priority_gap: int | None = None  # work preempts what is this much lower in priority; None: priority only orders
    min_run_s: int = 300  # before work may be preempted; lent cards are taken back whatever has run


@dataclass(frozen=True, slots=True)
class Limit:
    """One limited quantity of a quota scope. ``used`` may exceed a limit that was lowered meanwhile."""

    limit: int | None = None
    used: int = 0

    def room(self) -> int | None:
        """What may still be taken; None = no limit, never negative."""
        return None if self.limit is None else max(0, self.limit - self.used)


@dataclass(frozen=True, slots=True)
class Scope:
    """A quota scope: a group or one user of it, in one pool or over all pools (``pool_id`` None)."""

    id: str
    group_id: str
    user_id: str | None
    pool_id: str | None
    gpu_milli: Limit = Limit()  # card equivalents
    cpu_milli: Limit = Limit()
    memory_mib: Limit = Limit()
    environments: Limit = Limit()  # environments that hold resources
    running_jobs: Limit = Limit()  # jobs that hold resources
    guaranteed_milli: int | None = None  # card equivalents that the group always gets back; None: nothing guaranteed
    weight: int = 1  # of the group, when groups compete for what nobody is guaranteed
    usage: int = 0  # of the group in the pool: decayed card-equivalent milli-seconds, see `scheduler.fairness`


@dataclass(frozen=True, slots=True)
class Request:
    """A waiting workload: ``tasks`` equal tasks that start together or not at all."""

    id: str
    kind: Kind
    group_id: str
    user_id: str
    pool_id: str
    resources: Resources
    priority: int
    queued_at_us: int
    tasks: int = 1
    held: bool = False
    preemptible: bool = True
    time_limit_s: int | None = None  # of running time; None: it may run for ever
    same_node: bool = False  # all tasks on one node
    spread: bool = False  # each task on a node of its own
    node_labels: frozenset[str] = frozenset()  # "key=value", all of which the node must have
    promised_us: int | None = None  # the first start that a `Reservation` named; it is then served before its like


@dataclass(frozen=True, slots=True)
class TaskPlacement:
    rank: int
    node_id: str
    shares: tuple[Share, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """A workload that holds resources. What it holds is already taken off the nodes' free amounts.

    ``pool_id`` is the pool of its queue; a task on a node of another pool is on lent cards. ``is_leaving``: it has
    been told to end, its room comes free soon.
    """

    id: str
    kind: Kind
    group_id: str
    user_id: str
    pool_id: str
    resources: Resources  # of one task
    tasks: tuple[TaskPlacement, ...]
    priority: int
    queued_at_us: int
    started_at_us: int | None = None  # None: placed, its containers are on their way
    ends_at_us: int | None = None  # by its time limit at the latest; None: no limit
    saved_at_us: int | None = None  # its last checkpoint, as it reported
    preemptible: bool = False
    is_leaving: bool = False
    card_milli: int = 0  # card equivalents that its quota scopes are charged


@dataclass(frozen=True, slots=True)
class Demand:
    """How often tasks of these needs have been submitted, in the unit of `scheduler.mix`."""

    resources: Resources
    weight: int


@dataclass(frozen=True, slots=True)
class Mix:
    """What is usually asked of a pool, learned from what has been submitted: placement keeps room for the like.
    ``demands`` are in no particular order, each with other needs; ``ended`` is in the unit of their weights."""

    pool_id: str
    demands: tuple[Demand, ...] = ()
    ended: int = 0  # tasks that gave their room back; without any, nothing is expected to


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a decision depends on. The order of rows never matters."""

    version: int  # epoch of the scheduler that took it
    now_us: int
    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
    scopes: tuple[Scope, ...]
    pending: tuple[Request, ...]
    running: tuple[Running, ...] = ()
    lending: tuple[LendingRule, ...] = ()
    reserves: tuple[Reserve, ...] = ()
    mixes: tuple[Mix, ...] = ()  # at most one for each pool; without one nothing is known of what will come
    with_estimates: bool = True  # whether waiting requests are told when they may start, which takes some time


@dataclass(frozen=True, slots=True)
class PendingReason:
    """One reason with the numbers that explain it, e.g. ``fragmented`` {"needed": 4, "largest_free": 3}."""

    code: Reason
    numbers: Mapping[str, int | str] = field(default_factory=dict)
    message: str = ""  # English, with the numbers in it: "needs 4 cards on one node, largest free is 3"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where all tasks of a request go, and what each quota scope is charged for it."""

    request_id: str
    tasks: tuple[TaskPlacement, ...]
    card_milli: int  # card equivalents of all tasks together
    lent_by: str | None = None  # the lending rule, when it is placed on another pool's cards


@dataclass(frozen=True, slots=True)
class Preemption:
    """A running workload that is to save and leave. ``beneficiary``: the request that it makes room for; None: its
    pool's reserve, or a window that closes."""

    workload_id: str
    cause: Cause
    beneficiary: str | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room that is kept for a request until it can start: on these nodes nothing starts that would delay it.
    ``starts_at_us`` None: nobody can say, because what it waits for has no time limit."""

    request_id: str
    node_ids: tuple[str, ...]
    starts_at_us: int | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that stays in the queue: its place in its pool's order (1 = next), and why."""

    request_id: str
    position: int
    reasons: tuple[PendingReason, ...]
    earliest_us: int | None = None  # estimated start; None: cannot be said
    latest_us: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Each pending request is in exactly one of the two lists."""

    version: int
    placements: tuple[Placement, ...]
    waiting: tuple[Waiting, ...]
    preemptions: tuple[Preemption, ...] = ()
    reservations: tuple[Reservation, ...] = ()
