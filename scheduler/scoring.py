"""Which of the places that fit is best. Lower is better; integers only; every key ends in an id."""

from collections.abc import Sequence
from typing import TypeAlias

from scheduler.capacity import Ask, CardRoom, NodeRoom
from scheduler.model import Strategy

Key: TypeAlias = tuple[int, int, int, int, int, str]


def rank_cards(strategy: Strategy, cards: Sequence[CardRoom]) -> list[CardRoom]:
    """The cards of one node, best first: the fullest to pack, the emptiest to spread."""
    sign = 1 if strategy is Strategy.PACK else -1
    return sorted(cards, key=lambda card: (sign * card.free_milli, sign * card.free_memory_mib, card.id))


def score_node(strategy: Strategy, ask: Ask, node: NodeRoom, fitting: Sequence[CardRoom]) -> Key:
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
        return int(bool(node.cards)), sign * node.free_milli, cpu, memory, 0, node.id
    if ask.is_whole:
        return sign * len(fitting), sign * node.free_milli, cpu, memory, 0, node.id
    if len(fitting) == 1:
        free_milli, free_memory = fitting[0].free_milli, fitting[0].free_memory_mib
    else:
        chosen = rank_cards(strategy, fitting)[: ask.gpus]
        free_milli = sum(card.free_milli for card in chosen)
        free_memory = sum(card.free_memory_mib for card in chosen)
    return sign * free_milli, sign * free_memory, sign * node.free_milli, cpu, memory, node.id
