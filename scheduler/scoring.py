"""Which of the places that fit is best. Lower is better; integers only; ties are broken by id."""

from collections.abc import Sequence
from typing import TypeAlias

from scheduler.capacity import Ask, CardRoom, NodeRoom
from scheduler.model import Strategy

Score: TypeAlias = tuple[int, int, int, int, int]


def rank_cards(strategy: Strategy, cards: Sequence[CardRoom]) -> list[CardRoom]:
    """The cards of one node, best first: the fullest to pack, the emptiest to spread."""
    sign = 1 if strategy is Strategy.PACK else -1
    return sorted(cards, key=lambda card: (sign * card.free_milli, sign * card.free_memory_mib, card.id))


def score_node(strategy: Strategy, ask: Ask, node: NodeRoom, fitting: Sequence[CardRoom]) -> Score:
    """How good the node is for one task of the request. ``fitting`` are its cards with room, at least ``gpus``.

    - Shares, to pack: the fullest cards that still fit, then the fullest node.
    - Whole cards, to pack: the node with the fewest free cards.
    - No GPU: nodes without cards first, then those with the least free on their cards, so that the CPU that
      free cards need is used last. Spreading too keeps to nodes without cards while it can.
    - Then the least free CPU and memory. Spreading reverses all but what is said above.
    """
    sign = 1 if strategy is Strategy.PACK else -1
    cpu, memory = sign * node.free_cpu_milli, sign * node.free_memory_mib
    if ask.gpus == 0:
        return int(bool(node.cards)), sign * node.free_milli, cpu, memory, 0
    if ask.is_whole:
        return sign * len(fitting), sign * node.free_milli, cpu, memory, 0
    free = [(sign * card.free_milli, sign * card.free_memory_mib) for card in fitting]
    if ask.gpus == 1:
        best_milli, best_memory = min(free)
    else:
        chosen = sorted(free)[: ask.gpus]
        best_milli, best_memory = sum(milli for milli, _ in chosen), sum(mib for _, mib in chosen)
    return best_milli, best_memory, sign * node.free_milli, cpu, memory
