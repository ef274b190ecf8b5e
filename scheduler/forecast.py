"""What a pool's task mix says about the pool's cards: the worth of remainders, and what has to be kept for whom.

The measures extend fragmentation gradient descent (Weng et al., "Beware of Fragmentation", USENIX ATC 2023):

- A card's remainder is worth what usual shares can still fill of it, not its size (`scheduler.cutting`). Only slices
  of a cut pool fit wherever one left.
- CPU is kept where there are cards to use it.
- Card models that some work needs are kept from work that can do without them.
- Nodes that can hold several whole cards' tasks are kept whole while such tasks are expected.
- Where room comes free again, a hole need not find its perfect partner: patience is short, and fragments in the
  paper's sense count too.

A forecast depends on nothing but its arguments, takes some 50 ms, and is kept for the next cycle.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from scheduler.cutting import CARD, residue_values
from scheduler.demand import Need, balance, demand_by_accepted, needs_of, parts_of
from scheduler.mix import ENOUGH
from scheduler.model import WHOLE_CARD_MILLI, Mix, Pool
from scheduler.sizing import CardKind

MICRO: Final = 1_000  # costs are in millionths of a card
_POPULAR: Final = 95  # percent of the mix that fragments are measured by
_MOST_HOSTED: Final = 24  # kinds of many-card tasks that nodes are kept for


@dataclass(frozen=True, slots=True)
class Stance:
    """``patience``: how many tasks a remainder may wait for. ``host_milli``: price of a host, for each of its cards.
    ``fragments``: they count."""

    patience: int
    host_milli: int
    fragments: bool


KEEPS: Final = Stance(patience=64, host_milli=100, fragments=False)  # what is placed stays
TURNS_OVER: Final = Stance(patience=8, host_milli=300, fragments=True)  # what is placed ends, and others take its room


@dataclass(frozen=True, slots=True)
class Hardware:
    """One kind of card in the pool: how many there are, the most on one node, and the least CPU beside them."""

    kind: CardKind
    cards: int
    most_on_node: int
    least_cpu_milli: int  # of the node that has least CPU for each card
    beside_cards: int  # that node's cards


@dataclass(frozen=True, slots=True)
class Hosted:
    """Tasks of several whole cards, and those as large or larger: ``weight`` of all of them."""

    cpu_milli: int
    gpus: int
    weight: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """Tables by kind of card, in the order of the hardware. ``costs`` and ``hosting`` are by step of free CPU first:
    `bisect_right` of ``cpu_steps``. What can be hosted is by number of empty cards and by step of free CPU, as bits."""

    cpu_of_gpu: tuple[tuple[int, int], ...]  # usual CPU milli for so many GPU milli
    cpu_steps: tuple[int, ...]
    costs: tuple[tuple[Sequence[int], ...], ...]  # of a card with so much free: fragments less worth
    hosting: tuple[tuple[Sequence[int], ...], ...]  # worth of so many empty cards of a node to many-card tasks; or ()
    capacity: tuple[int, ...]  # milli of all cards
    kept_for_others: Mapping[int, tuple[int, ...]]  # by accepted kinds: demand of others, in the unit of ``demand``
    demand: int  # weight times milli of all tasks
    first_of_equals: bool  # among places of equal cost the first is best, not the fullest: the last nodes stay empty
    hosted: tuple[Hosted, ...]
    host_milli: int
    hosted_by_cards: tuple[int, ...]
    host_cpu_steps: tuple[int, ...]
    hosted_by_cpu: tuple[int, ...]

    def can_host(self, empty: int, free_cpu_milli: int) -> int:
        """Which of the hosted a node with so many empty cards could take, as bits."""
        return self.hosted_by_cards[empty] & self.hosted_by_cpu[bisect_right(self.host_cpu_steps, free_cpu_milli)]


_PLAIN: Final = [MICRO * free for free in range(WHOLE_CARD_MILLI + 1)]  # a remainder is worth its size


@lru_cache(maxsize=64)
def forecast(pool: Pool, hardware: tuple[Hardware, ...], mix: Mix | None) -> Forecast:
    """What to expect of the mix; of one that says too little, only that nodes are used as they are built."""
    says_something = mix is not None and sum(one.weight for one in mix.demands) >= ENOUGH
    needs = needs_of(pool, [one.kind for one in hardware], mix) if mix is not None and says_something else {}
    asked = {need: weight for need, weight in needs.items() if need.accepts}
    if mix is None or not asked:
        return _unlearned(hardware)
    stance = TURNS_OVER if mix.ended * 8 >= sum(needs.values()) else KEEPS
    flow = balance(demand_by_accepted(asked), [one.cards for one in hardware])
    steps = _cpu_steps(asked, needs) if stance.fragments else ()
    popular = _popular(needs)
    kinds = range(len(hardware))
    is_cut = pool.slices_per_gpu > 0
    worth = [_PLAIN] * len(hardware) if is_cut else _worth(asked, flow, kinds, stance.patience)
    fragments = [_fragments(kind, popular, steps) if stance.fragments else [None] for kind in kinds]
    costs = [[_cost(worth[kind], lost) for lost in fragments[kind]] for kind in kinds]
    hosting = (
        [_hosting(kind, popular, steps, hardware[kind].most_on_node) for kind in kinds] if stance.fragments else []
    )
    hosted = _hosted(asked)
    return Forecast(
        cpu_of_gpu=tuple(_cpu_of_gpu(asked, flow, kind, hardware[kind]) for kind in kinds),
        cpu_steps=steps,
        costs=tuple(zip(*costs, strict=True)),
        hosting=tuple(zip(*hosting, strict=True)),
        capacity=tuple(one.cards * WHOLE_CARD_MILLI for one in hardware),
        kept_for_others=_kept_for_others(flow),
        demand=sum(sum(parts) for parts in flow.values()),
        first_of_equals=not is_cut,
        hosted=hosted,
        host_milli=stance.host_milli,
        **_host_tables(hosted, hardware),
    )


def _unlearned(hardware: Sequence[Hardware]) -> Forecast:
    return Forecast(
        cpu_of_gpu=tuple(_as_built(one) for one in hardware),
        cpu_steps=(),
        costs=(tuple(_cost(_PLAIN, None) for _ in hardware),),
        hosting=(),
        capacity=tuple(one.cards * WHOLE_CARD_MILLI for one in hardware),
        kept_for_others={},
        demand=0,
        first_of_equals=False,
        hosted=(),
        host_milli=0,
        **_host_tables((), hardware),
    )


def _as_built(one: Hardware) -> tuple[int, int]:
    """No idle node seems short of CPU."""
    return max(1, one.least_cpu_milli), max(1, one.beside_cards) * WHOLE_CARD_MILLI


def _worth(
    asked: Mapping[Need, int], flow: Mapping[int, Sequence[int]], kinds: Iterable[int], patience: int
) -> list[list[int]]:
    """Worth of a card's remainder, by kind. Kinds that the same comes to are worth the same."""
    card = CARD // (MICRO * WHOLE_CARD_MILLI)
    known: dict[tuple[tuple[int, int], ...], list[int]] = {}
    worth = []
    for kind in kinds:
        offers: dict[int, int] = {}
        for need, part in parts_of(asked, flow, kind).items():
            size = need.sizes[kind]
            if size and (need.gpus == 1 or not need.is_whole):  # 0: cards of this kind do not suit it
                offers[size] = offers.get(size, 0) + part * need.gpus
        key = tuple(sorted(offers.items()))
        if key not in known:
            known[key] = [value // card for value in residue_values(offers, patience)] if offers else _PLAIN
        worth.append(known[key])
    return worth


def _cpu_of_gpu(
    asked: Mapping[Need, int], flow: Mapping[int, Sequence[int]], kind: int, built: Hardware
) -> tuple[int, int]:
    cpu = gpu = 0
    for need, part in parts_of(asked, flow, kind).items():
        cpu, gpu = cpu + part * need.cpu_milli, gpu + part * need.gpus * need.sizes[kind]
    return (cpu, gpu) if cpu and gpu else _as_built(built)


def _kept_for_others(flow: Mapping[int, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    """For work that accepts these kinds: what work with less choice needs of each."""
    kept = {}
    for bits in flow:
        picky = [parts for other, parts in flow.items() if other != bits and other.bit_count() < bits.bit_count()]
        if picky:
            kept[bits] = tuple(map(sum, zip(*picky, strict=True)))
    return kept


def _hosted(asked: Mapping[Need, int]) -> tuple[Hosted, ...]:
    shapes: dict[tuple[int, int], int] = {}
    for need, weight in asked.items():
        if need.gpus > 1 and need.is_whole:
            shape = need.gpus, need.cpu_milli
            shapes[shape] = shapes.get(shape, 0) + weight
    most = sorted(shapes, key=lambda shape: (-shapes[shape], shape))[:_MOST_HOSTED]
    return tuple(
        Hosted(cpu, gpus, sum(weight for shape, weight in shapes.items() if shape[0] >= gpus and shape[1] >= cpu))
        for gpus, cpu in sorted(most)
    )


def _host_tables(hosted: Sequence[Hosted], hardware: Sequence[Hardware]) -> dict[str, tuple[int, ...]]:
    """The last three fields of a forecast."""
    most = max((one.most_on_node for one in hardware), default=0)
    steps = sorted({one.cpu_milli for one in hosted})
    return {
        "hosted_by_cards": tuple(
            sum(1 << place for place, one in enumerate(hosted) if one.gpus <= empty) for empty in range(most + 1)
        ),
        "host_cpu_steps": tuple(steps),
        "hosted_by_cpu": tuple(
            sum(1 << place for place, one in enumerate(hosted) if one.cpu_milli <= cpu) for cpu in (-1, *steps)
        ),
    }


def _popular(needs: Mapping[Need, int]) -> dict[Need, int]:
    """The most frequent needs that make up nearly all of the mix."""
    total, kept = sum(needs.values()), 0
    popular = {}
    for need in sorted(needs, key=lambda one: (-needs[one], one.cpu_milli, one.gpus, one.is_whole, one.sizes)):
        if kept * 100 >= total * _POPULAR:
            break
        popular[need] = needs[need]
        kept += needs[need]
    return popular


def _cpu_steps(asked: Mapping[Need, int], needs: Mapping[Need, int]) -> tuple[int, ...]:
    return tuple(sorted({need.cpu_milli for need in _popular(needs) if need in asked}))


def _fragments(kind: int, popular: Mapping[Need, int], steps: Sequence[int]) -> list[list[int]]:
    """By step of CPU and free milli: how much of it, in the mean over the mix, a task cannot use."""
    total = sum(popular.values())
    singles = sorted(
        (need.sizes[kind], need.cpu_milli, weight)
        for need, weight in popular.items()
        if need.gpus and need.sizes[kind] and (need.gpus == 1 or not need.is_whole)
    )
    rows = []
    for most_cpu in (-1, *steps):
        row: list[int] = []
        usable = 0
        for size, cpu, weight in singles:
            if cpu <= most_cpu:
                row += [MICRO * free * (total - usable) // total for free in range(len(row), size)]
                usable += weight
        row += [MICRO * free * (total - usable) // total for free in range(len(row), WHOLE_CARD_MILLI + 1)]
        rows.append(row)
    return rows


def _cost(worth: Sequence[int], lost: Sequence[int] | None) -> list[int]:
    return (
        [-value for value in worth] if lost is None else [more - value for more, value in zip(lost, worth, strict=True)]
    )


def _hosting(kind: int, popular: Mapping[Need, int], steps: Sequence[int], most_cards: int) -> list[list[int]]:
    """By step of CPU and number of free cards: how much of them, in the mean over the mix, many-card tasks can use."""
    total = max(1, sum(popular.values()))
    many = [(need, weight) for need, weight in popular.items() if need.is_whole and need.gpus > 1 and need.sizes[kind]]
    return [
        [
            MICRO
            * WHOLE_CARD_MILLI
            * free
            * sum(w for need, w in many if need.cpu_milli <= most_cpu and need.gpus <= free)
            // total
            for free in range(most_cards + 1)
        ]
        for most_cpu in (-1, *steps)
    ]
