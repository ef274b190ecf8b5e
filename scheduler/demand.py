"""Who asks for which of a pool's cards: a task mix as needs that placement can tell apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.model import WHOLE_CARD_MILLI, Mix, Pool
from scheduler.sizing import CardKind, Grant, grant

_ROUNDS: Final = 50


@dataclass(frozen=True, slots=True)
class Need:
    """Tasks that placement cannot tell apart. ``sizes``: milli of a card of each kind; 0: such a card cannot serve."""

    cpu_milli: int
    gpus: int
    is_whole: bool
    sizes: tuple[int, ...]

    @property
    def accepts(self) -> int:
        return accepted(self.sizes)


def accepted(sizes: Iterable[int]) -> int:
    """The kinds of card that can serve, as bits."""
    return sum(1 << kind for kind, size in enumerate(sizes) if size)


def size_of(given: Grant | None, memory_mib: int) -> int:
    """Thousandths of a card that a grant really takes: its larger part of memory and compute. 0 for no grant."""
    if given is None:
        return 0
    if given.whole:
        return WHOLE_CARD_MILLI
    return min(WHOLE_CARD_MILLI, max(given.compute_milli, -(-WHOLE_CARD_MILLI * given.memory_mib // memory_mib)))


def needs_of(pool: Pool, kinds: Sequence[CardKind], mix: Mix) -> dict[Need, int]:
    """Weights of all that some card here, or none at all, can serve."""
    needs: dict[Need, int] = {}
    for demand in mix.demands:
        asked = demand.resources
        sizes = tuple(size_of(grant(asked, pool, *kind), kind[1]) for kind in kinds) if asked.gpus else ()
        if asked.gpus == 0 or any(sizes):
            is_whole = asked.gpus > 0 and not asked.wants_share
            need = Need(asked.cpu_milli, asked.gpus, is_whole, sizes)
            needs[need] = needs.get(need, 0) + demand.weight
    return needs


def demand_by_accepted(asked: Mapping[Need, int]) -> dict[int, int]:
    """Milli asked for, times weight, by the kinds of card that can serve."""
    demand: dict[int, int] = {}
    for need, weight in asked.items():
        demand[need.accepts] = demand.get(need.accepts, 0) + weight * _gpu_milli(need)
    return demand


def parts_of(asked: Mapping[Need, int], flow: Mapping[int, Sequence[int]], kind: int) -> dict[Need, int]:
    """How often each need comes to cards of this kind, in any unit."""
    if len(flow) == 1:
        return {need: weight for need, weight in asked.items() if need.sizes[kind]}
    parts = {}
    for need, weight in asked.items():
        going = flow[need.accepts]
        if part := weight * 1024 * going[kind] // max(1, sum(going)):
            parts[need] = part
    return parts


def balance(demand: Mapping[int, int], cards: Sequence[int]) -> dict[int, list[int]]:
    """Spread demand, by the kinds of card that it accepts (bits), over the kinds so that their loads even out.

    One set of kinds after the other is poured onto what the others leave, until nothing moves.
    """
    kinds_of = {bits: [kind for kind in range(len(cards)) if bits >> kind & 1] for bits in sorted(demand)}
    flow = {bits: [0] * len(cards) for bits in kinds_of}
    load = [0] * len(cards)
    for _ in range(_ROUNDS):
        moved = False
        for bits, kinds in kinds_of.items():
            others = [total - mine for total, mine in zip(load, flow[bits], strict=True)]
            poured = _pour(demand[bits], kinds, others, cards)
            moved = moved or poured != flow[bits]
            flow[bits] = poured
            load = [other + mine for other, mine in zip(others, poured, strict=True)]
        if not moved or len(kinds_of) == 1:
            break
    return flow


def _pour(amount: int, kinds: Sequence[int], load: Sequence[int], cards: Sequence[int]) -> list[int]:
    """Fill the least loaded kinds up to one level. What division leaves goes to the first of them."""
    ranked = sorted(kinds, key=lambda kind: (load[kind] * 1_000_000 // cards[kind], kind))
    level_load, level_cards, filled = amount, 0, 0
    for kind in ranked:
        if filled and level_load * cards[kind] <= load[kind] * level_cards:
            break
        level_load, level_cards, filled = level_load + load[kind], level_cards + cards[kind], filled + 1
    poured = [0] * len(cards)
    for kind in ranked[:filled]:
        poured[kind] = max(0, level_load * cards[kind] // level_cards - load[kind])
    poured[ranked[0]] += amount - sum(poured)
    return poured


def _gpu_milli(need: Need) -> int:
    """Of one task, on the kind of card that it takes least of."""
    return need.gpus * min(size for size in need.sizes if size)
