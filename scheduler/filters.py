"""Where a request fits. Exact: what these functions refuse cannot be placed in any other way either."""

from collections.abc import Iterable, Sequence

from scheduler.capacity import ANYWHERE, Ask, CardRoom, NodeRoom
from scheduler.model import WHOLE_CARD_MILLI


def is_empty(card: CardRoom) -> bool:
    """True when nobody holds anything of the card."""
    return card.free_milli == WHOLE_CARD_MILLI and card.free_memory_mib == card.memory_mib


def fitting_cards(ask: Ask, node: NodeRoom, cards: Sequence[CardRoom]) -> list[CardRoom]:
    """The cards with room for at least one of the request's shares.

    A whole card must be empty, and nothing else fits on a card that is taken whole: it has nothing left.
    """
    if node.free_milli < ask.least_milli and cards is node.cards:
        return []
    grants = ask.grants
    if ask.is_whole:
        return [card for card in cards if grants[card.kind] is not None and is_empty(card)]
    return [
        card
        for card in cards
        if (given := grants[card.kind]) is not None
        and card.free_milli >= given.compute_milli
        and card.free_memory_mib >= given.memory_mib
    ]


def shares_on(ask: Ask, card: CardRoom) -> int:
    """How many of the request's shares the card still holds; a whole card is one share."""
    given = ask.grants[card.kind]
    if given is None:
        return 0
    if given.whole:
        return int(is_empty(card))
    return min(card.free_memory_mib // given.memory_mib, card.free_milli // given.compute_milli)


def tasks_beside(ask: Ask, node: NodeRoom) -> int:
    """How many of the request's tasks the node's free CPU and memory allow, GPUs aside."""
    return min(ask.tasks, node.free_cpu_milli // ask.cpu_milli, node.free_memory_mib // ask.memory_mib)


def tasks_on_cards(ask: Ask, fitting: Sequence[CardRoom], at_most: int) -> int:
    """How many of the request's tasks, up to ``at_most``, the cards hold at once, CPU and memory aside.

    T tasks fit when the cards together hold T * gpus shares, no card counting more than T: a task's shares
    are on different cards. The largest such T is reached from above.
    """
    if len(fitting) < ask.gpus:
        return 0
    tasks = at_most
    if tasks <= 1 or ask.gpus == 0:
        return tasks
    rooms = [shares_on(ask, card) for card in fitting]
    while (held := sum(min(room, tasks) for room in rooms) // ask.gpus) < tasks:
        tasks = held
    return tasks


def tasks_on(ask: Ask, node: NodeRoom, fitting: Sequence[CardRoom]) -> int:
    """How many of the request's tasks, at most all of them, the node may hold at once on the cards that fit."""
    layout = ask.layout
    if layout is not ANYWHERE and not layout.labels <= node.labels:
        return 0
    if ask.tasks == 1:  # by far the most frequent case, and the inner loop of every search
        beside = node.free_cpu_milli >= ask.cpu_milli and node.free_memory_mib >= ask.memory_mib
        return int(beside and len(fitting) >= ask.gpus)
    at_most = max(0, tasks_beside(ask, node))
    held = tasks_on_cards(ask, fitting, min(1, at_most) if layout.spread else at_most)
    return 0 if layout.same_node and held < ask.tasks else held


def room_on(ask: Ask, node: NodeRoom) -> int:
    """How many of the request's tasks the node holds now."""
    return tasks_on(ask, node, fitting_cards(ask, node, node.cards) if ask.gpus else ())


def room_in(ask: Ask, nodes: Iterable[tuple[NodeRoom, int]]) -> int:
    """How many of the request's tasks nodes of these sorts, each so many times there, hold together."""
    return sum(room_on(ask, node) * count for node, count in nodes)


def deal_cards(ask: Ask, ranked: Sequence[CardRoom], tasks: int, *, stack: bool) -> list[list[CardRoom]]:
    """Cards for each of ``tasks`` tasks that `tasks_on` says fit, best cards first.

    ``stack``: fill the best card before the next; else one share a card in turn.
    """
    needed = ask.gpus * tasks
    rooms = [min(shares_on(ask, card), tasks) for card in ranked]
    if sum(rooms) < needed:
        raise ValueError(f"{tasks} tasks do not fit on these cards")
    taken = [0] * len(ranked)
    while needed:
        for place, room in enumerate(rooms):
            more = min(needed, room - taken[place] if stack else min(1, room - taken[place]))
            taken[place] += more
            needed -= more
    hands: list[list[CardRoom]] = [[] for _ in range(tasks)]
    copies = [card for card, count in zip(ranked, taken, strict=True) for _ in range(count)]
    for turn, card in enumerate(copies):  # a card's copies are neighbours and at most ``tasks``: no hand gets two
        hands[turn % tasks].append(card)
    return hands
