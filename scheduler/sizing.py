"""What a request gets of a card, and what it costs.

A card reports less memory than its name says (a "32 GB" V100: 32,510 MiB), so two sizes exist side by side:
*advertised* is what people ask in, *reported* is what there is. A cut pool's slice is advertised as
``advertised // slices`` and really holds ``(reported - reserve) // slices``, so that all slices always fit.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from scheduler.model import WHOLE_CARD_MILLI, Device, Pool, Resources

MIB_PER_GIB: Final = 1024
USUAL_CARD_GIB: Final = (1, 2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 180, 192, 288)
_SIZE_IN_NAME: Final = re.compile(r"(?<![0-9.])([0-9]{1,4})\s?GB(?![a-z])", re.IGNORECASE)
_WORD: Final = re.compile(r"[a-z0-9]+")

CardKind: TypeAlias = tuple[str, int]
"""What sizing needs to know of a card: its model and the MiB that it reports."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one card gives to one task: a `Share` that does not yet know its device."""

    memory_mib: int
    compute_milli: int
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """A number that no cluster could satisfy. ``smallest`` is the least that makes sense."""

    field: str
    asked: int
    smallest: int


def find_faults(resources: Resources, tasks: int = 1) -> tuple[Fault, ...]:
    """What is wrong with a request whatever the hardware: too small, negative, or GPU memory of no GPU."""
    fields = [
        ("tasks", tasks, 1),
        ("resources.cpu_milli", resources.cpu_milli, 1),
        ("resources.memory_mib", resources.memory_mib, 1),
        ("resources.gpus", resources.gpus, 1 if resources.wants_share else 0),
        ("resources.gpu_slices", resources.gpu_slices, 1),
        ("resources.gpu_memory_mib", resources.gpu_memory_mib, 1),
        ("resources.gpu_compute_milli", resources.gpu_compute_milli, 1),
    ]
    return tuple(Fault(name, asked, least) for name, asked, least in fields if asked is not None and asked < least)


@lru_cache(maxsize=4096)
def matches_model(asked: str | None, model: str) -> bool:
    """True when every word of ``asked`` is a word of the card's name, whatever the case; None matches all.

    ``V100`` and ``v100-32gb`` match "Tesla V100-SXM2-32GB", ``V100-16GB`` does not, ``A100`` is not "A1000".
    ``|`` separates alternatives: ``A100|H100``.
    """
    if asked is None or asked.casefold() == model.casefold():
        return True
    present = set(_WORD.findall(model.casefold()))
    wanted = [set(_WORD.findall(choice)) for choice in asked.casefold().split("|")]
    return any(words and words <= present for words in wanted)


def advertised_mib(model: str, memory_mib: int) -> int:
    """The card's size as people know it: from its name ("V100-32GB"), else the next usual size up.

    A number in the name counts only when the reported memory is between 3/4 of it and all of it: the
    "480GB" of a GH200 is the memory of its CPU. 0 when the card reports no memory.
    """
    if memory_mib <= 0:
        return 0
    for match in _SIZE_IN_NAME.finditer(model):
        named = int(match.group(1)) * MIB_PER_GIB
        if named * 3 <= memory_mib * 4 and memory_mib <= named:
            return named
    for gib in USUAL_CARD_GIB:
        if memory_mib <= gib * MIB_PER_GIB:
            return gib * MIB_PER_GIB
    step = 16 * MIB_PER_GIB
    return -(-memory_mib // step) * step


def slice_mib(pool: Pool, device_memory_mib: int) -> int:
    """MiB that one slice of a card really holds: floor((reported - reserve) / slices), never negative.

    0 for an uncut pool, which has no slices.
    """
    if pool.slices_per_gpu <= 0:
        return 0
    return max(0, device_memory_mib - pool.gpu_reserve_mib) // pool.slices_per_gpu


def nominal_slice_mib(pool: Pool, model: str, memory_mib: int) -> int:
    """MiB that one slice is called: advertised / slices. A request up to it is one slice. 0 in an uncut pool."""
    return advertised_mib(model, memory_mib) // pool.slices_per_gpu if pool.slices_per_gpu > 0 else 0


def grant(resources: Resources, pool: Pool, model: str, memory_mib: int) -> Grant | None:
    """What each of the request's cards gives if it is such a card; None when such a card can never serve it.

    - Without a share field: the whole card, all that it reports and 1000 milli.
    - Cut pool: the fewest slices n that satisfy every share field given, where ``gpu_memory_mib`` is counted
      in nominal slices. Granted are n real slices and floor(1000 * n / slices) milli. All slices of a card are
      not the whole card: the reserve stays free, and ``whole`` is false.
    - Uncut pool: MiB and milli as asked. What is not asked follows in proportion, rounded down, at least 1.
      ``gpu_slices`` has no meaning there and is never granted.
    - A card whose memory is unknown (0) gives nothing.
    """
    if resources.gpus < 1 or memory_mib <= 0 or not matches_model(resources.gpu_model, model):
        return None
    if not resources.wants_share:
        return Grant(memory_mib, WHOLE_CARD_MILLI, whole=True)
    asked = (resources.gpu_slices, resources.gpu_memory_mib, resources.gpu_compute_milli)
    if any(number is not None and number < 1 for number in asked):
        return None
    if pool.slices_per_gpu > 0:
        return _grant_slices(resources, pool, model, memory_mib)
    return _grant_part(resources, memory_mib)


def slices_needed(resources: Resources, pool: Pool, model: str, memory_mib: int) -> int | None:
    """Slices of one such card in a cut pool that a share request takes; None when a card has too few."""
    nominal = nominal_slice_mib(pool, model, memory_mib)
    if nominal < 1 or slice_mib(pool, memory_mib) < 1:
        return None
    count = max(
        resources.gpu_slices or 1,
        -(-(resources.gpu_memory_mib or 1) // nominal),
        -(-(resources.gpu_compute_milli or 1) * pool.slices_per_gpu // WHOLE_CARD_MILLI),
    )
    return count if count <= pool.slices_per_gpu else None


def slices_left(pool: Pool, memory_mib: int, free_memory_mib: int, free_milli: int) -> int:
    """How many more slices a card of the cut pool can give: the most n whose n * slice MiB and floor(1000 * n / slices)
    milli are free. 0 in an uncut pool."""
    size = slice_mib(pool, memory_mib)
    if size < 1:
        return 0
    by_compute = ((free_milli + 1) * pool.slices_per_gpu - 1) // WHOLE_CARD_MILLI
    return max(0, min(pool.slices_per_gpu, free_memory_mib // size, by_compute))


def card_equivalent_milli(resources: Resources, pool: Pool, devices: Iterable[Device]) -> int:
    """Quota charge of one task, in thousandths of a card. ``devices``: all cards of the pool.

    A whole card is 1000. A share is ceil(1000 * max(granted MiB / MiB of the pool's smallest card, compute
    share)), at most 1000; times ``gpus``; 0 without GPUs. The charge does not depend on where the task lands:
    when cards of several models could serve it, the cheapest of them sets it. When none can, the charge is
    the least possible, 1 a card, and never falls due.
    """
    return charge_milli(resources, pool, {(device.model, device.memory_mib) for device in devices})


def charge_milli(resources: Resources, pool: Pool, kinds: Iterable[CardKind]) -> int:
    """`card_equivalent_milli` from the distinct kinds of card in the pool."""
    if resources.gpus < 1:
        return 0
    if not resources.wants_share:
        return WHOLE_CARD_MILLI * resources.gpus
    known = [(model, memory_mib) for model, memory_mib in kinds if memory_mib > 0]
    grants = [given for kind in known if (given := grant(resources, pool, *kind)) is not None]
    if not grants:
        return resources.gpus
    smallest = min(memory_mib for _, memory_mib in known)
    cheapest = min(max(-(-WHOLE_CARD_MILLI * g.memory_mib // smallest), g.compute_milli) for g in grants)
    return min(cheapest, WHOLE_CARD_MILLI) * resources.gpus


def _grant_slices(resources: Resources, pool: Pool, model: str, memory_mib: int) -> Grant | None:
    count = slices_needed(resources, pool, model, memory_mib)
    if count is None:
        return None
    compute_milli = WHOLE_CARD_MILLI * count // pool.slices_per_gpu
    if compute_milli < 1:
        return None
    return Grant(count * slice_mib(pool, memory_mib), compute_milli)


def _grant_part(resources: Resources, total_mib: int) -> Grant | None:
    if resources.gpu_slices is not None:
        return None
    asked_mib, asked_milli = resources.gpu_memory_mib, resources.gpu_compute_milli
    if asked_mib is None:
        asked_mib = max(1, total_mib * (asked_milli or 1) // WHOLE_CARD_MILLI)
    if asked_milli is None:
        asked_milli = max(1, WHOLE_CARD_MILLI * asked_mib // total_mib)
    if asked_mib > total_mib or asked_milli > WHOLE_CARD_MILLI:
        return None
    return Grant(asked_mib, asked_milli)
