"""Writes of pools: one function, one transaction, one audit event."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from aistation.audit.services import record
from aistation.core.dispatch import changed_on_commit, send_once_on_commit
from aistation.core.errors import ConflictError, FieldError, InvalidInputError
from aistation.core.validation import name_error
from aistation.fleet.models import Device, Node, Pool, Strategy
from aistation.tenancy.policy import Actor
from scheduler.model import WHOLE_CARD_MILLI, Kind

POOL_FIELDS: Final = (
    "kinds", "slices_per_gpu", "gpu_reserve_mib", "cpu_overcommit_percent", "strategy", "priority_gap", "min_run_s",
)  # fmt: skip
CUT_FIELDS: Final = ("slices_per_gpu", "gpu_reserve_mib")
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "slices_per_gpu": (0, 64),
    "gpu_reserve_mib": (0, 1 << 20),
    "cpu_overcommit_percent": (100, 1000),
    "priority_gap": (1, 100),
    "min_run_s": (0, 7 * 24 * 3600),
}


@transaction.atomic
def create_pool(  # noqa: PLR0913 - the columns of a pool
    *,
    name: str,
    kinds: Collection[str],
    now: datetime,
    actor: Actor | None,
    slices_per_gpu: int = 0,
    gpu_reserve_mib: int = 512,
    cpu_overcommit_percent: int = 100,
    strategy: str = Strategy.PACK,
    priority_gap: int | None = None,
    min_run_s: int = 300,
) -> Pool:
    """Create a pool without nodes. Raises InvalidInputError, ConflictError (the name is taken)."""
    pool = Pool(
        name=name,
        kinds=sorted(set(kinds)),
        slices_per_gpu=slices_per_gpu,
        gpu_reserve_mib=gpu_reserve_mib,
        cpu_overcommit_percent=cpu_overcommit_percent,
        strategy=strategy,
        priority_gap=priority_gap,
        min_run_s=min_run_s,
        created_at=now,
    )
    errors = [error for error in (name_error("name", name), *_pool_errors(pool)) if error]
    if errors:
        raise InvalidInputError("The pool cannot be created.", errors=errors)
    try:
        with transaction.atomic():
            pool.save(force_insert=True)
    except IntegrityError as error:
        message = f"The pool name {name} is taken."
        raise ConflictError(message, errors=[FieldError("name", "taken", message)]) from error
    record(actor, now, "pool.create", "pool", name, after=_values(pool))
    changed_on_commit("cluster")
    return pool


@transaction.atomic
def change_pool(*, pool_id: int, changes: Mapping[str, Any], now: datetime, actor: Actor) -> Pool:
    """Set the given ones of `POOL_FIELDS`. Running work is left alone.

    How cards are cut changes only while no part of a card is in use (ConflictError): shares of two cuts on one card
    would leave holes. A new CPU overcommit counts at once on all nodes of the pool.
    """
    pool = Pool.objects.select_for_update(no_key=True).get(pk=pool_id)
    before = _values(pool)
    for field in POOL_FIELDS:
        if field in changes:
            setattr(pool, field, changes[field])
    pool.kinds = sorted(set(pool.kinds))
    errors = _pool_errors(pool)
    if errors:
        raise InvalidInputError("The pool cannot be changed.", errors=errors)
    after = _values(pool)
    changed = {field for field in POOL_FIELDS if before[field] != after[field]}
    if not changed:
        return pool
    nodes = list(Node.objects.select_for_update(no_key=True).filter(pool=pool).order_by("pk"))
    if changed & set(CUT_FIELDS):
        _refuse_while_shared(pool)
    pool.save()
    if "cpu_overcommit_percent" in changed:
        for node in nodes:
            set_cpu(node, node.machine_cpu_milli, pool.cpu_overcommit_percent)
        Node.objects.bulk_update(nodes, ["machine_cpu_milli", "cpu_milli", "cpu_over_milli"])
    old, new = ({field: values[field] for field in sorted(changed)} for values in (before, after))
    record(actor, now, "pool.change", "pool", pool.name, before=old, after=new)
    send_once_on_commit("scheduling.decide")
    changed_on_commit("cluster")
    return pool


def set_cpu(node: Node, machine_cpu_milli: int, overcommit_percent: int) -> None:
    """What the node may give out. What is taken beyond it stays until it is given back. ``node`` is locked."""
    node.machine_cpu_milli = machine_cpu_milli
    node.cpu_milli = machine_cpu_milli * overcommit_percent // 100
    node.cpu_over_milli = node.cpu_taken_milli if node.cpu_taken_milli > node.cpu_milli else 0


def _refuse_while_shared(pool: Pool) -> None:
    """The pool's nodes are locked, so nothing is placed meanwhile. Whole cards in use do not matter to a cut."""
    is_part = Q(taken_milli__lt=WHOLE_CARD_MILLI) | Q(memory_taken_mib__lt=F("memory_mib")) | Q(memory_mib=None)
    shared = Device.objects.filter(is_part, node__pool=pool, taken_milli__gt=0)
    count = shared.count()
    if count:
        nodes = sorted(set(shared.values_list("node__name", flat=True)))
        raise ConflictError(
            f"Parts of {count} cards are in use on {', '.join(nodes[:8])}. Drain these nodes, or wait until the "
            "workloads there have ended, then change how cards are cut."
        )


def _pool_errors(pool: Pool) -> list[FieldError]:
    errors = []
    known = {kind.value for kind in Kind}
    if not pool.kinds or not set(pool.kinds) <= known:
        errors.append(FieldError("kinds", "bad_kinds", f"Choose at least one of {', '.join(sorted(known))}."))
    for field, (least, most) in _RANGES.items():
        value = getattr(pool, field)
        if value is not None and not least <= value <= most:
            errors.append(FieldError(field, "out_of_range", f"Choose {least} to {most}."))
    if pool.strategy not in Strategy.values:
        errors.append(FieldError("strategy", "bad_strategy", f"Choose one of {', '.join(Strategy.values)}."))
    return errors


def _values(pool: Pool) -> dict[str, Any]:
    return {field: getattr(pool, field) for field in POOL_FIELDS}
