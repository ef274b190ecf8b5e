"""What is left of a pool while a plan is being made. Scratch: built from a snapshot, never leaves the core."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from scheduler.demand import accepted, size_of
from scheduler.forecast import Forecast, Hardware, forecast
from scheduler.model import WHOLE_CARD_MILLI, Mix, Node, Pool, Request, Resources, Share, TaskPlacement
from scheduler.outlook import CardGroup, NodeState, Outlook
from scheduler.sizing import CardKind, Grant, charge_milli, grant


class CardRoom:
    """What is left of one card. ``kind`` is its place in the pool's list of card kinds."""

    __slots__ = ("free_memory_mib", "free_milli", "id", "kind", "memory_mib")

    def __init__(self, card_id: str, kind: int, memory_mib: int, free_memory_mib: int, free_milli: int) -> None:
        self.id = card_id
        self.kind = kind
        self.memory_mib = memory_mib
        self.free_memory_mib = free_memory_mib
        self.free_milli = free_milli


class NodeRoom:
    """What is left of one node. ``version`` counts the changes made to it in this cycle.

    ``cards`` are those in service, ``broken`` the others; ``is_open``: the node takes new work.
    """

    __slots__ = (
        "broken",
        "cards",
        "free_cpu_milli",
        "free_memory_mib",
        "free_milli",
        "id",
        "is_open",
        "labels",
        "version",
    )

    def __init__(self, node: Node, cards: Sequence[CardRoom], broken: Sequence[CardRoom]) -> None:
        self.id = node.id
        self.is_open = node.schedulable
        self.labels = node.labels
        self.free_cpu_milli = node.free_cpu_milli
        self.free_memory_mib = node.free_memory_mib
        self.cards = cards
        self.broken = broken
        self.free_milli = sum(card.free_milli for card in cards)
        self.version = 0

    @property
    def all_cards(self) -> Sequence[CardRoom]:
        return (*self.cards, *self.broken) if self.broken else self.cards


@dataclass(frozen=True, slots=True)
class Layout:
    """What a request demands of its nodes, beside their size."""

    same_node: bool = False
    spread: bool = False
    labels: frozenset[str] = frozenset()


ANYWHERE: Final = Layout()


def layout_of(request: Request) -> Layout:
    """`ANYWHERE` itself for the many that demand nothing."""
    if not (request.same_node or request.spread or request.node_labels):
        return ANYWHERE
    return Layout(request.same_node, request.spread, request.node_labels)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request's needs, worked out for one pool. ``grants``: what a card of each of the pool's kinds gives."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    tasks: int
    is_whole: bool
    grants: tuple[Grant | None, ...]
    card_milli: int  # quota charge of all tasks together
    least_milli: int  # compute that each share takes at least; lets full nodes be skipped unseen
    takes: tuple[tuple[int, int, int] | None, ...]  # as grants: milli, MiB, and thousandths of a card that it is worth
    accepts: int  # the kinds that can serve, as bits
    layout: Layout = ANYWHERE


class PoolRoom:
    """A pool's nodes with what is left of them, and a log of which node changed when.

    Nodes and cards that are out of service are kept too: they explain why something waits. Nodes are in the order of
    their ids.
    """

    def __init__(self, pool: Pool, nodes: Iterable[Node], mix: Mix | None = None) -> None:
        self.pool = pool
        self.mix = mix
        self.has_unknown_cards = False
        self._state_index: dict[tuple[int, int, frozenset[str], tuple[tuple[int, int, int], ...]], int] = {}
        self._states: dict[int, tuple[int, int]] = {}  # by index of the node: its version then, its state
        self._rows = tuple(sorted(nodes, key=lambda node: node.id))
        self.kinds: list[CardKind] = sorted(
            {(one.model, one.memory_mib) for node in self._rows for one in node.devices if one.memory_mib > 0}
        )
        self._kind_index = {kind: index for index, kind in enumerate(self.kinds)}
        self.nodes = [self._node_room(node) for node in self._rows]
        self.any_node = 1 << len(self.kinds)
        self.kinds_on = [  # of the cards in service, as bits; and a bit that every node has
            self.any_node | sum({1 << card.kind for card in node.cards}) for node in self.nodes
        ]
        self.changes: list[int] = []  # indices into nodes, oldest first
        self.releases = 0  # how often room came back
        self._alike: dict[int, tuple[int, set[int]]] = {}  # open nodes by state
        self._alike_as: dict[int, int] = {}  # and the state that each is filed under
        self._alike_to = 0  # how many of the changes are in it
        self._node_states: list[NodeState | None] = [None] * len(self.nodes)
        self._counted: dict[int, NodeState] = {}  # what the outlook knows of each open node
        self._counted_to = 0  # how many of the changes it knows

    def ask(self, resources: Resources, tasks: int, layout: Layout = ANYWHERE) -> Ask:
        grants = tuple(grant(resources, self.pool, *kind) for kind in self.kinds)
        sizes = tuple(size_of(given, kind[1]) for given, kind in zip(grants, self.kinds, strict=True))
        return Ask(
            cpu_milli=resources.cpu_milli,
            memory_mib=resources.memory_mib,
            gpus=resources.gpus,
            tasks=tasks,
            is_whole=resources.gpus > 0 and not resources.wants_share,
            grants=grants,
            card_milli=charge_milli(resources, self.pool, self.kinds) * tasks,
            least_milli=min((given.compute_milli for given in grants if given), default=0),
            takes=tuple(
                None if given is None else (given.compute_milli, given.memory_mib, size)
                for given, size in zip(grants, sizes, strict=True)
            ),
            accepts=accepted(sizes),
            layout=layout,
        )

    @cached_property
    def forecast(self) -> Forecast:
        return forecast(self.pool, self._hardware(), self.mix)

    @cached_property
    def _outlook(self) -> Outlook:
        return Outlook(self.forecast)

    def outlook(self) -> Outlook:
        """The pool through its forecast, as things are now."""
        outlook = self._outlook
        if outlook.has_prices and (not self._counted or self._counted_to < len(self.changes)):
            changed = set(self.changes[self._counted_to :]) if self._counted else range(len(self.nodes))
            for index in changed:
                if self.nodes[index].is_open:
                    if index in self._counted:
                        outlook.leave(self._counted[index])
                    self._counted[index] = self.node_state(index)
                    outlook.enter(self._counted[index])
            self._counted_to = len(self.changes)
        return outlook

    def learn(self, mix: Mix) -> None:
        """Look at the pool through another mix. What searches have found before no longer counts."""
        self.mix = mix
        for name in ("forecast", "_outlook"):
            self.__dict__.pop(name, None)
        self._node_states = [None] * len(self.nodes)
        self._counted.clear()

    def node_state(self, index: int) -> NodeState:
        """The node in numbers, for the outlook."""
        node, state = self.nodes[index], self._node_states[index]
        if state is None or state.version != node.version:
            kind = _main_kind(node.cards) if state is None else state.kind
            state = NodeState(self.forecast, node.version, node.free_cpu_milli, kind, _groups(node.cards))
            self._node_states[index] = state
        return state

    def state_of(self, index: int) -> int:
        """A number that two nodes share when they have the same hardware, in card order, with the same left of it."""
        node = self.nodes[index]
        version, state = self._states.get(index, (-1, 0))
        if version != node.version:
            cards = tuple((card.kind, card.free_memory_mib, card.free_milli) for card in node.cards)
            left = (node.free_cpu_milli, node.free_memory_mib, node.labels, cards)
            state = self._state_index.setdefault(left, len(self._state_index))
            self._states[index] = node.version, state
        return state

    def alike(self) -> Iterable[tuple[int, set[int]]]:
        """The open nodes by `state_of`: free milli of the cards of each, and which they are, at least one."""
        changed = set(self.changes[self._alike_to :]) if self._alike_as else range(len(self.nodes))
        self._alike_to = len(self.changes)
        for index in changed:
            node = self.nodes[index]
            if node.is_open:
                before, now = self._alike_as.get(index), self.state_of(index)
                if before is not None and before != now:
                    nodes = self._alike[before][1]
                    nodes.discard(index)
                    if not nodes:
                        del self._alike[before]
                self._alike_as[index] = now
                self._alike.setdefault(now, (node.free_milli, set()))[1].add(index)
        return self._alike.values()

    def place(self, index: int, ask: Ask, tasks: Sequence[Sequence[CardRoom]], first_rank: int) -> list[TaskPlacement]:
        """Take one task's room from the node for each list of cards in ``tasks``."""
        node = self.nodes[index]
        node.version += 1
        self.changes.append(index)
        placed = []
        for rank, chosen in enumerate(tasks, start=first_rank):
            node.free_cpu_milli -= ask.cpu_milli
            node.free_memory_mib -= ask.memory_mib
            shares = []
            for card in sorted(chosen, key=lambda one: one.id):
                given = ask.grants[card.kind]
                if given is None:  # a filter let a card through that gives nothing
                    raise ValueError(f"card {card.id} cannot serve this request")
                card.free_memory_mib -= given.memory_mib
                card.free_milli -= given.compute_milli
                node.free_milli -= given.compute_milli
                shares.append(Share(card.id, given.memory_mib, given.compute_milli, given.whole))
            placed.append(TaskPlacement(rank, node.id, tuple(shares)))
        return placed

    def release(self, index: int, ask: Ask, shares: Iterable[Share]) -> None:
        """Give back what one task of the request holds on the node."""
        node = self.nodes[index]
        node.version += 1
        self.changes.append(index)
        self.releases += 1
        node.free_cpu_milli += ask.cpu_milli
        node.free_memory_mib += ask.memory_mib
        cards = {card.id: card for card in node.cards}
        for share in shares:
            card = cards[share.device_id]
            card.free_memory_mib += share.memory_mib
            card.free_milli += share.compute_milli
            node.free_milli += share.compute_milli

    @cached_property
    def installed(self) -> list[tuple[NodeRoom, int]]:
        """All hardware of the pool as if nothing ran and all of it were in service; equal nodes counted."""
        return self._when_empty(in_service_only=False)

    @cached_property
    def in_service(self) -> list[tuple[NodeRoom, int]]:
        """The hardware that takes work now, as if nothing ran on it; equal nodes counted."""
        return self._when_empty(in_service_only=True)

    def _node_room(self, node: Node) -> NodeRoom:
        cards: list[CardRoom] = []
        broken: list[CardRoom] = []
        for device in node.devices:
            if device.memory_mib <= 0:
                self.has_unknown_cards = True
                continue
            kind = self._kind_index[device.model, device.memory_mib]
            card = CardRoom(device.id, kind, device.memory_mib, device.free_memory_mib, device.free_milli)
            (cards if device.usable else broken).append(card)
        return NodeRoom(node, cards, broken)

    def _hardware(self) -> tuple[Hardware, ...]:
        """All cards of the pool, in service or not, by kind."""
        cards = [0] * len(self.kinds)
        most = [0] * len(self.kinds)
        least: list[tuple[int, int]] = [(1, 0)] * len(self.kinds)  # CPU of so many cards, where it is least a card
        for row, node in zip(self._rows, self.nodes, strict=True):
            for kind, count in Counter(card.kind for card in node.all_cards).items():
                cards[kind] += count
                most[kind] = max(most[kind], len(node.all_cards))
                cpu, beside = least[kind]
                if row.cpu_milli * beside < cpu * len(node.all_cards):
                    least[kind] = row.cpu_milli, len(node.all_cards)
        return tuple(map(Hardware, self.kinds, cards, most, *zip(*least, strict=True))) if self.kinds else ()

    def _when_empty(self, *, in_service_only: bool) -> list[tuple[NodeRoom, int]]:
        like: Counter[tuple[int, int, tuple[int, ...], frozenset[str]]] = Counter()
        for row, node in zip(self._rows, self.nodes, strict=True):
            if node.is_open or not in_service_only:
                present = node.cards if in_service_only else node.all_cards
                kinds = tuple(sorted(card.kind for card in present))
                like[row.cpu_milli, row.memory_mib, kinds, row.labels] += 1
        return [(self._empty_node(*hardware), count) for hardware, count in like.items()]

    def _empty_node(self, cpu_milli: int, memory_mib: int, kinds: tuple[int, ...], labels: frozenset[str]) -> NodeRoom:
        sizes = [self.kinds[kind][1] for kind in kinds]
        cards = [
            CardRoom(str(place), kind, size, size, WHOLE_CARD_MILLI)
            for place, (kind, size) in enumerate(zip(kinds, sizes, strict=True))
        ]
        row = Node("", self.pool.id, cpu_milli, memory_mib, cpu_milli, memory_mib, labels=labels)
        return NodeRoom(row, cards, ())


def _main_kind(cards: Sequence[CardRoom]) -> int:
    """The kind of most of the cards, -1 without any."""
    kinds = Counter(card.kind for card in cards)
    return min(kinds, key=lambda kind: (-kinds[kind], kind)) if kinds else -1


def _groups(cards: Sequence[CardRoom]) -> tuple[CardGroup, ...]:
    """The cards by what is left of them; those that have nothing left are left out."""
    alike: dict[tuple[int, int, int], list[CardRoom]] = {}
    for card in cards:
        if card.free_milli > 0 and card.free_memory_mib > 0:
            alike.setdefault((card.free_milli, card.free_memory_mib, card.kind), []).append(card)
    return tuple([group_of(same[0], len(same)) for same in alike.values()])


def group_of(card: CardRoom, count: int = 1) -> CardGroup:
    """Cards with as much left as this one."""
    milli, mib = card.free_milli, card.free_memory_mib
    free = min(milli, WHOLE_CARD_MILLI * mib // card.memory_mib)
    is_empty = milli == WHOLE_CARD_MILLI and mib == card.memory_mib
    return CardGroup(milli, mib, card.kind, free, is_empty, count)
