"""Could this request ever start? Asked at submit, where a request that cannot is refused with what would pass."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from scheduler.capacity import ANYWHERE, Ask, NodeRoom, PoolRoom, layout_of
from scheduler.filters import fitting_cards, room_in, room_on
from scheduler.model import WHOLE_CARD_MILLI, Kind, Pool, Request, Resources, Snapshot
from scheduler.quotas import Ledger, Shortfall, charge_of
from scheduler.sizing import charge_milli, find_faults, matches_model, nominal_slice_mib, slice_mib
from scheduler.wording import AMOUNT, counted

SHARE_FIELDS: Final = ("gpu_slices", "gpu_memory_mib", "gpu_compute_milli")


class RefusalCode(StrEnum):
    TOO_SMALL = "too_small"
    GPUS_REQUIRED = "gpus_required"
    UNKNOWN_POOL = "unknown_pool"
    KIND_NOT_ALLOWED = "kind_not_allowed"
    UNKNOWN_MODEL = "unknown_model"
    UNKNOWN_LABEL = "unknown_label"
    POOL_NOT_CUT = "pool_not_cut"
    EXCEEDS_CARD = "exceeds_card"
    EXCEEDS_NODE = "exceeds_node"
    EXCEEDS_POOL = "exceeds_pool"
    EXCEEDS_QUOTA = "exceeds_quota"


class RefusedBy(StrEnum):
    """Whose rule it is: the request contradicts itself, the pool's hardware or kinds, or a quota's limit."""

    REQUEST = "request"
    POOL = "pool"
    GROUP = "group"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One rule that a request can never pass.

    ``would_pass``: the number nearest to ``asked`` that this rule lets through with all else as asked (the
    smallest where less was asked, else the largest; None where no number helps). ``choices``: the words that
    would pass instead, e.g. the card models of the pool.
    """

    field: str
    code: RefusalCode
    scope: RefusedBy
    scope_id: str  # the pool's or the quota scope's id; empty for the request itself
    asked: int | str
    would_pass: int | None
    message: str
    choices: tuple[str, ...] = ()


def impossible(request: Request, snapshot: Snapshot) -> tuple[Refusal, ...]:
    """Every rule that keeps the request from starting even if nothing else ran; () when it could start.

    All nodes of the pool count, also those that take no work now, and their cards, also the broken ones.
    Hardware that is not there yet is not held against a request: a pool without any node, or with cards that
    have not told their memory yet, refuses no size and no model. Such a request waits (`node_unavailable`).
    Limits count in any case.
    """
    pool = next((pool for pool in snapshot.pools if pool.id == request.pool_id), None)
    refusals = list(refuse_malformed(request))
    if pool is None:
        names = tuple(sorted(pool.id for pool in snapshot.pools))
        message = f"there is no pool {request.pool_id}; the pools are {', '.join(names) or 'not set up yet'}"
        code = RefusalCode.UNKNOWN_POOL
        return *refusals, Refusal("pool", code, RefusedBy.POOL, request.pool_id, request.pool_id, None, message, names)
    refusals += refuse_kind(request.kind, pool)
    if any(refusal.field != "kind" for refusal in refusals):
        return tuple(refusals)  # nothing more can be said of numbers that make no sense
    room = PoolRoom(pool, (node for node in snapshot.nodes if node.pool_id == pool.id))
    refusals += refuse_size(request.resources, room.ask(request.resources, request.tasks, layout_of(request)), room)
    refusals += _refuse_quota(request, room, Ledger(snapshot.scopes))
    return tuple(refusals)


def refuse_malformed(request: Request) -> tuple[Refusal, ...]:
    """Numbers that no hardware could satisfy: below the least that makes sense, or GPU memory of no GPU."""
    refusals = []
    for fault in find_faults(request.resources, request.tasks):
        code = RefusalCode.TOO_SMALL
        message = f"{fault.field} is {fault.asked}; the least is {fault.smallest}"
        if fault.field == "resources.gpus" and fault.asked == 0:
            code = RefusalCode.GPUS_REQUIRED
            message = "a share of a card is asked for, but of 0 cards; gpus must be at least 1"
        refusals.append(Refusal(fault.field, code, RefusedBy.REQUEST, "", fault.asked, fault.smallest, message))
    return tuple(refusals)


def refuse_kind(kind: Kind, pool: Pool) -> tuple[Refusal, ...]:
    if kind in pool.kinds:
        return ()
    names = tuple(sorted(pool.kinds))
    message = f"pool {pool.id} takes no {kind}; it takes {', '.join(names) or 'nothing'}"
    return (Refusal("kind", RefusalCode.KIND_NOT_ALLOWED, RefusedBy.POOL, pool.id, kind.value, None, message, names),)


def refuse_size(resources: Resources, ask: Ask, room: PoolRoom) -> tuple[Refusal, ...]:
    """What the hardware of the pool, all of it and idle, is too small for. The request is well-formed."""
    if not room.nodes or (resources.gpus and room.has_unknown_cards):
        return ()
    refusals = [*_refuse_card(resources, room), *_refuse_node(ask, room), *_refuse_labels(ask, room)]
    if refusals:
        return tuple(refusals)
    held = room_in(ask, room.installed)
    return () if held >= ask.tasks else (_refuse_tasks(ask, held, room),)


def _refuse_labels(ask: Ask, room: PoolRoom) -> list[Refusal]:
    """Labels that no node of the pool has together."""
    labels = ask.layout.labels
    if not labels or any(labels <= node.labels for node, _ in room.installed):
        return []
    present = tuple(sorted(frozenset().union(*(node.labels for node, _ in room.installed))))
    asked = ", ".join(sorted(labels))
    message = f"no node of pool {room.pool.id} is labelled {asked}; labels are {', '.join(present) or 'not set'}"
    code = RefusalCode.UNKNOWN_LABEL
    return [Refusal("node_labels", code, RefusedBy.POOL, room.pool.id, asked, None, message, present)]


def _refuse_tasks(ask: Ask, held: int, room: PoolRoom) -> Refusal:
    """Each task alone would fit."""
    name, labelled = room.pool.id, " with these labels" if ask.layout.labels else ""
    if ask.layout.same_node:
        anywhere = replace(ask, layout=replace(ask.layout, same_node=False))
        most = max((room_on(anywhere, node) for node, _ in room.installed), default=0)
        message = f"no node of pool {name}{labelled} holds more than {counted(most, 'task')} of this size"
        return _refusal(room, "tasks", RefusalCode.EXCEEDS_NODE, ask.tasks, most, f"{message}; asked for: {ask.tasks}")
    if ask.layout.spread:
        message = f"pool {name} has {counted(held, 'node')}{labelled} for a task of this size; asked for: {ask.tasks}"
    else:
        nodes = "" if ask.layout is ANYWHERE else f" on nodes{labelled}"
        message = f"pool {name} holds {counted(held, 'task')} of this size at most{nodes}; asked for: {ask.tasks}"
    return _refusal(room, "tasks", RefusalCode.EXCEEDS_POOL, ask.tasks, held, message)


def _refusal(room: PoolRoom, field: str, code: RefusalCode, asked: int, would_pass: int, message: str) -> Refusal:
    return Refusal(field, code, RefusedBy.POOL, room.pool.id, asked, would_pass, message)


def _refuse_card(resources: Resources, room: PoolRoom) -> list[Refusal]:
    """What no single card of the pool can give: another model, or a share larger than a card."""
    pool = room.pool
    if not resources.gpus or not room.kinds:
        return []
    kinds = [kind for kind in room.kinds if matches_model(resources.gpu_model, kind[0])]
    if not kinds:
        models = tuple(sorted({model for model, _ in room.kinds}))
        asked = resources.gpu_model or ""
        message = f"pool {pool.id} has no card {asked}; it has {', '.join(models)}"
        code = RefusalCode.UNKNOWN_MODEL
        return [Refusal("resources.gpu_model", code, RefusedBy.POOL, pool.id, asked, None, message, models)]
    if pool.slices_per_gpu == 0 and resources.gpu_slices is not None:
        message = f"the cards of pool {pool.id} are not cut in slices; ask for gpu_memory_mib"
        code, asked_slices = RefusalCode.POOL_NOT_CUT, resources.gpu_slices
        return [Refusal("resources.gpu_slices", code, RefusedBy.POOL, pool.id, asked_slices, None, message)]
    largest = {"gpu_slices": pool.slices_per_gpu, "gpu_compute_milli": WHOLE_CARD_MILLI}
    largest["gpu_memory_mib"] = max(_largest_share_mib(pool, *kind) for kind in kinds)
    if largest["gpu_memory_mib"] == 0:  # cut so small that the reserve leaves nothing
        largest = dict.fromkeys(largest, 0)
    refusals = []
    for name in SHARE_FIELDS:
        asked_number = getattr(resources, name)
        if asked_number is not None and asked_number > largest[name]:
            passes = AMOUNT[name](largest[name])
            message = f"a card of pool {pool.id} gives at most {passes}; asked for: {AMOUNT[name](asked_number)}"
            code = RefusalCode.EXCEEDS_CARD
            refusals.append(_refusal(room, f"resources.{name}", code, asked_number, largest[name], message))
    return refusals


def _largest_share_mib(pool: Pool, model: str, memory_mib: int) -> int:
    """The largest ``gpu_memory_mib`` that such a card grants."""
    if pool.slices_per_gpu == 0:
        return memory_mib
    return nominal_slice_mib(pool, model, memory_mib) * pool.slices_per_gpu if slice_mib(pool, memory_mib) else 0


def _refuse_node(ask: Ask, room: PoolRoom) -> list[Refusal]:
    """One task is too large for every node: name each number that is too large alone, or beside all the others."""
    nodes = [node for node, _ in room.installed]
    sizes: dict[str, tuple[int, Callable[[NodeRoom], int]]] = {
        "gpus": (ask.gpus, lambda node: _able_cards(ask, node)),
        "cpu_milli": (ask.cpu_milli, lambda node: node.free_cpu_milli),
        "memory_mib": (ask.memory_mib, lambda node: node.free_memory_mib),
    }
    if not ask.gpus or (room.kinds and not any(ask.grants)):  # no GPU, or its share or model is to blame already
        del sizes["gpus"]
    has = {name: [size(node) for node in nodes] for name, (_, size) in sizes.items()}
    enough = {name: {at for at, size in enumerate(has[name]) if size >= asked} for name, (asked, _) in sizes.items()}
    if set(range(len(nodes))).intersection(*enough.values()):
        return []
    refusals = []
    for name, (asked, _) in sizes.items():
        others = set(range(len(nodes))).intersection(*(enough[other] for other in sizes if other != name))
        if others or not enough[name]:
            largest = max(has[name][at] for at in others or range(len(nodes)))
            refusals.append(_over_node(room, name, asked, largest, is_alone=largest == max(has[name])))
    if refusals:
        return refusals
    message = f"no node of pool {room.pool.id} has the cards, CPU and memory that one task asks for together"
    return [_refusal(room, "resources", RefusalCode.EXCEEDS_NODE, 1, 0, message)]


def _over_node(room: PoolRoom, name: str, asked: int, largest: int, *, is_alone: bool) -> Refusal:
    which = "the largest node" if is_alone else "beside all else that is asked, a node"
    message = f"{which} of pool {room.pool.id} gives {AMOUNT[name](largest)}; asked for: {AMOUNT[name](asked)}"
    return _refusal(room, f"resources.{name}", RefusalCode.EXCEEDS_NODE, asked, largest, message)


def _able_cards(ask: Ask, node: NodeRoom) -> int:
    return len(fitting_cards(ask, node, node.cards))


def _refuse_quota(request: Request, room: PoolRoom, ledger: Ledger) -> list[Refusal]:
    """Limits that the request exceeds alone, each in the unit of the field that would have to shrink."""
    ask = room.ask(request.resources, request.tasks)
    if request.resources.wants_share and not any(ask.grants):
        ask = replace(ask, card_milli=0)  # no card to measure the share by
    shortfalls = ledger.shortfalls(request, charge_of(request.kind, ask), ignore_use=True)
    return [_over_quota(request, room, shortfall) for shortfall in shortfalls]


def _over_quota(request: Request, room: PoolRoom, over: Shortfall) -> Refusal:
    scope = over.scope
    amount = AMOUNT[over.quantity]
    per_task = over.limit // request.tasks
    message = f"the limit of {scope_name(over)} is {amount(over.limit)}; asked for: {amount(over.asked)}"
    if over.quantity == "gpu_milli":
        name, asked, passes = _shrink_gpus(request.resources, room, per_task)
        field = f"resources.{name}"
        if request.tasks > 1 or request.resources.wants_share:
            message += f"; would pass: {AMOUNT[name](passes)}{' a task' if request.tasks > 1 else ''}"
    elif over.quantity in ("cpu_milli", "memory_mib"):
        field, asked, passes = f"resources.{over.quantity}", over.asked // request.tasks, per_task
    else:
        field, asked, passes = "kind", over.asked, over.limit
    by = RefusedBy.GROUP if scope.user_id is None else RefusedBy.USER
    return Refusal(field, RefusalCode.EXCEEDS_QUOTA, by, scope.id, asked, passes, message)


def scope_name(over: Shortfall) -> str:
    """The scope in words: "user ada of group vision in pool training"."""
    scope = over.scope
    who = f"group {scope.group_id}" if scope.user_id is None else f"user {scope.user_id} of group {scope.group_id}"
    return f"{who} in pool {scope.pool_id}" if scope.pool_id is not None else f"{who} over all pools"


def _shrink_gpus(resources: Resources, room: PoolRoom, limit_milli: int) -> tuple[str, int, int]:
    """The GPU field to shrink, what was asked in it, and the most that costs no more than the limit.

    The number of cards first; where even one share is too much, the largest of the share's own fields.
    """
    one_card = charge_milli(replace(resources, gpus=1), room.pool, room.kinds)
    cards = limit_milli // one_card
    if cards >= 1 or not resources.wants_share:
        return "gpus", resources.gpus, cards
    name = next(name for name in SHARE_FIELDS if getattr(resources, name) is not None)
    low, high = 0, int(getattr(resources, name))  # the charge rises with the field
    while low + 1 < high:
        middle = (low + high) // 2
        changed: dict[str, Any] = {name: middle}
        smaller = replace(resources, gpus=1, **changed)
        low, high = (middle, high) if charge_milli(smaller, room.pool, room.kinds) <= limit_milli else (low, middle)
    return name, int(getattr(resources, name)), low
