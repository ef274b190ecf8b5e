"""Which of the places that fit is best. Lower is better; integers only; ties are broken by id."""

from collections.abc import Sequence
from typing import TypeAlias

from scheduler.capacity import Ask, CardRoom, NodeRoom, group_of
from scheduler.outlook import CardGroup, Lane, NodeState, Outlook

Score: TypeAlias = tuple[int, int, int, int, int, int]

_Picked: TypeAlias = tuple[int, int, int, int, int, int]
"""Cost of the cards taken; their free milli and MiB; thousandths taken; empty cards among them; cards that fit."""


def score_packed(outlook: Outlook, ask: Ask, node: NodeRoom, state: NodeState) -> tuple[Score, Lane] | None:
    """How good the node is for one task of the request, to pack; None when the task does not fit.

    What the pool loses for the work that usually comes is first. Between places that cost the same, where the forecast
    does not say that the first is best:

    - Shares: the fullest cards that still fit, then the fullest node.
    - Whole cards: the node with the fewest free cards.
    - No GPU: nodes without cards first, then those with the least free on their cards, so that the CPU that
      free cards need is used last.
    - Then the least free CPU and memory.
    """
    cpu, memory = node.free_cpu_milli, node.free_memory_mib
    if cpu < ask.cpu_milli or memory < ask.memory_mib:
        return None
    step = outlook.step_after(state, ask.cpu_milli)
    if ask.gpus == 0:
        cost = outlook.beside(state, ask.cpu_milli, step, 0)
        lost = outlook.lost_hosts(state, ask.cpu_milli, 0) if state.can_host else 0
        has_cards = int(bool(node.cards))
        if outlook.forecast.first_of_equals:
            return (cost, has_cards, 0, 0, 0, 0), (-1, lost)
        return (cost, has_cards, node.free_milli, cpu, memory, 0), (-1, lost)
    picked = _pick_one(outlook, ask, state, step) if ask.gpus == 1 else _pick_many(outlook, ask, state, step)
    if picked is None:
        return None
    cost, milli, mib, taken, opened, free = picked
    cost += outlook.beside(state, ask.cpu_milli, step, taken)
    lost = outlook.lost_hosts(state, ask.cpu_milli, opened) if state.can_host else 0
    lane = state.kind if ask.accepts in outlook.forecast.kept_for_others else -1, lost
    if outlook.forecast.first_of_equals:
        return (cost, 0, 0, 0, 0, 0), lane
    if ask.is_whole:
        return (cost, free, node.free_milli, cpu, memory, 0), lane
    return (cost, milli, mib, node.free_milli, cpu, memory), lane


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


def rank_packed(outlook: Outlook, ask: Ask, state: NodeState, cards: Sequence[CardRoom]) -> list[CardRoom]:
    """The cards of one node, best first: where least is lost, the fullest of equals."""
    step = outlook.step_after(state, ask.cpu_milli)
    opening = outlook.opening(state, step)
    losses: dict[tuple[int, int, int], int] = {}
    ranked = []
    for card in cards:
        left = card.free_milli, card.free_memory_mib, card.kind
        if left not in losses:
            losses[left] = _loss(outlook, ask, step, group_of(card), opening)
        ranked.append((losses[left], left[0], left[1], card.id, card))
    ranked.sort()  # ids differ: cards themselves are never compared
    return [one[4] for one in ranked]


def rank_spread(cards: Sequence[CardRoom]) -> list[CardRoom]:
    """The cards of one node, best first: the emptiest."""
    return sorted(cards, key=lambda card: (-card.free_milli, -card.free_memory_mib, card.id))


def _pick_one(outlook: Outlook, ask: Ask, state: NodeState, step: int) -> _Picked | None:
    """The card that `rank_packed` has first, of those that fit."""
    costs, takes = outlook.forecast.costs[step], ask.takes
    opening = outlook.opening(state, step)
    free_cards = least = best_milli = best_mib = best_size = 0
    opens = False
    for milli, mib, kind, free, is_empty, cards in state.groups:
        needs = takes[kind]
        if needs is None or milli < needs[0] or mib < needs[1]:
            continue
        size, row = needs[2], costs[kind]
        loss = row[free - size if free > size else 0] - row[free]
        if is_empty:
            loss += opening
        if not free_cards or loss < least or (loss == least and (milli, mib) < (best_milli, best_mib)):
            least, best_milli, best_mib, best_size, opens = loss, milli, mib, size, is_empty
        free_cards += cards
    return (least, best_milli, best_mib, best_size, int(opens), free_cards) if free_cards else None


def _pick_many(outlook: Outlook, ask: Ask, state: NodeState, step: int) -> _Picked | None:
    """The cards that `rank_packed` has first, of those that fit, added up."""
    fitting = [group for group in state.groups if _fits(ask, group)]
    free_cards = sum(group.cards for group in fitting)
    if free_cards < ask.gpus:
        return None
    opening = outlook.opening(state, step)
    ranked = sorted((_loss(outlook, ask, step, group, opening), group) for group in fitting)
    cost = milli = mib = taken = opened = 0
    left = ask.gpus
    for _, group in ranked:
        count = min(group.cards, left)
        left -= count
        cost += count * _loss(outlook, ask, step, group, 0)
        milli, mib = milli + count * group.free_milli, mib + count * group.free_memory_mib
        taken += count * _size(ask, group)
        opened += count * group.is_empty
    return cost + outlook.opening(state, step, opened), milli, mib, taken, opened, free_cards


def _fits(ask: Ask, group: CardGroup) -> bool:
    """As `filters.fitting_cards`: a whole card asks for all that an empty one has."""
    needs = ask.takes[group.kind]
    return needs is not None and group.free_milli >= needs[0] and group.free_memory_mib >= needs[1]


def _size(ask: Ask, group: CardGroup) -> int:
    needs = ask.takes[group.kind]
    return 0 if needs is None else needs[2]


def _loss(outlook: Outlook, ask: Ask, step: int, group: CardGroup, opening: int) -> int:
    costs = outlook.forecast.costs[step][group.kind]
    lost = costs[max(0, group.free - _size(ask, group))] - costs[group.free]
    return lost + opening if group.is_empty else lost
