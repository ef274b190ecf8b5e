"""Which of the places that fit is best. Lower is better; integers only; ties are broken by id."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from scheduler.capacity import Ask, CardRoom, NodeRoom
from scheduler.model import Strategy
from scheduler.outlook import CardGroup, Lane, NodeState, Outlook, Pick

Score: TypeAlias = tuple[int, int, int, int, int, int]


def score_packed(outlook: Outlook, ask: Ask, node: NodeRoom, state: NodeState) -> tuple[Score, Lane] | None:
    """How good the node is for one task of the request, to pack; None when the task does not fit.

    What the pool loses for the work that usually comes is first. Between places that cost the same:

    - Shares: the fullest cards that still fit, then the fullest node.
    - Whole cards: the node with the fewest free cards.
    - No GPU: nodes without cards first, then those with the least free on their cards, so that the CPU that
      free cards need is used last.
    - Then the least free CPU and memory.
    """
    cpu, memory = node.free_cpu_milli, node.free_memory_mib
    if cpu < ask.cpu_milli or memory < ask.memory_mib:
        return None
    if ask.gpus == 0:
        place = outlook.cost_without_cards(state, ask.cpu_milli)
        return (place.cost, int(bool(node.cards)), node.free_milli, cpu, memory, 0), place.lane
    fitting = _fitting(ask, state)
    if not fitting or (ask.gpus > 1 and sum(group.count for group in fitting) < ask.gpus):
        return None
    picks = _best(outlook, ask, state, fitting)
    place = outlook.cost(state, ask.cpu_milli, picks, has_scarcity=ask.accepts in outlook.forecast.kept_for_others)
    if ask.is_whole:
        free = sum(group.count for group in fitting)
        return (place.cost, free, node.free_milli, cpu, memory, 0), place.lane
    return (place.cost, place.free_milli, place.free_memory_mib, node.free_milli, cpu, memory), place.lane


def score_spread(ask: Ask, node: NodeRoom, fitting: Sequence[CardRoom]) -> Score:
    """How good the node is for one task of the request, to spread. ``fitting`` are its cards with room, at least
    ``gpus``: the emptiest cards, then the node with the most free; work without GPU keeps to nodes without cards."""
    cpu, memory = -node.free_cpu_milli, -node.free_memory_mib
    if ask.gpus == 0:
        return 0, int(bool(node.cards)), -node.free_milli, cpu, memory, 0
    if ask.is_whole:
        return 0, -len(fitting), -node.free_milli, cpu, memory, 0
    chosen = sorted((-card.free_milli, -card.free_memory_mib) for card in fitting)[: ask.gpus]
    return 0, sum(milli for milli, _ in chosen), sum(mib for _, mib in chosen), -node.free_milli, cpu, memory


def rank_packed(
    outlook: Outlook, ask: Ask, state: NodeState, cards: Sequence[CardRoom], free_of: Callable[[CardRoom], CardGroup]
) -> list[CardRoom]:
    """The cards of one node, best first: where least is lost, the fullest of equals."""
    loss = _loss(outlook, ask, state)

    def rank(card: CardRoom) -> tuple[int, int, int, str]:
        group = free_of(card)
        return loss(group), group.free_milli, group.free_memory_mib, card.id

    return sorted(cards, key=rank)


def rank_spread(cards: Sequence[CardRoom]) -> list[CardRoom]:
    """The cards of one node, best first: the emptiest."""
    return sorted(cards, key=lambda card: (-card.free_milli, -card.free_memory_mib, card.id))


def _fitting(ask: Ask, state: NodeState) -> list[CardGroup]:
    """As `filters.fitting_cards`, by group."""
    grants = ask.grants
    if ask.is_whole:
        return [group for group in state.groups if group.is_empty and grants[group.kind] is not None]
    return [
        group
        for group in state.groups
        if (given := grants[group.kind]) is not None
        and group.free_milli >= given.compute_milli
        and group.free_memory_mib >= given.memory_mib
    ]


def _best(outlook: Outlook, ask: Ask, state: NodeState, fitting: list[CardGroup]) -> list[Pick]:
    """The cards that one task would get, as `rank_packed` has them."""
    sizes = ask.sizes
    if len(fitting) > 1:
        loss = _loss(outlook, ask, state)
        if ask.gpus == 1:
            best = min(fitting, key=lambda group: (loss(group), group.free_milli, group.free_memory_mib))
            return [(best, sizes[best.kind])]
        fitting = sorted(fitting, key=lambda group: (loss(group), group.free_milli, group.free_memory_mib))
    picks: list[Pick] = []
    for group in fitting:
        picks += [(group, sizes[group.kind])] * min(group.count, ask.gpus - len(picks))
    return picks


def _loss(outlook: Outlook, ask: Ask, state: NodeState) -> Callable[[CardGroup], int]:
    losses = outlook.losses(state, ask.cpu_milli)
    return lambda group: losses.of(group, ask.sizes[group.kind])
