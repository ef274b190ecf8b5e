"""A pool's room seen in several ways at once while a plan is made, all kept in step with each placement.

- ``now``: what is free. Work that may start anywhere is placed here.
- ``bare``: what is free when claims are left aside; tells "full" from "kept for another".
- ``coming``: what is free, and what work that has been asked to leave will give back. Claims are made here, and what
  a claim takes is closed to ``now``.
- ``spare``: what is left beside the pool's reservation once that can start; ``lasting``: what is free and spare.
  Work that would outlast the reservation's start is placed in ``lasting``.

Views that nobody needs are never made.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from scheduler.capacity import Ask, CardRoom, NodeRoom, PoolRoom
from scheduler.model import Mix, Node, Pool, Running, Snapshot, Strategy, TaskPlacement
from scheduler.search import Search

Tasks = tuple[TaskPlacement, ...]


class Ground:
    """The views of one pool."""

    def __init__(self, pool: Pool, rows: Iterable[Node], mix: Mix | None = None) -> None:
        self.pool = pool
        self.rows = tuple(rows)
        self.now = PoolRoom(pool, self.rows, mix)
        self.bare: PoolRoom | None = None
        self.coming: PoolRoom | None = None
        self.spare: PoolRoom | None = None
        self.lasting: PoolRoom | None = None
        self.index_of = {node.id: index for index, node in enumerate(self.now.nodes)}
        self.leavings = 0  # how often room was added to ``coming``

    def twin(self, room: PoolRoom) -> PoolRoom:
        """Another view with as much left of each node as this one has."""
        made = PoolRoom(room.pool, self.rows, room.mix)
        for fresh, node in zip(made.nodes, room.nodes, strict=True):
            fresh.free_cpu_milli, fresh.free_memory_mib, fresh.free_milli = (
                node.free_cpu_milli,
                node.free_memory_mib,
                node.free_milli,
            )
            for copied, card in zip(fresh.all_cards, node.all_cards, strict=True):
                copied.free_memory_mib, copied.free_milli = card.free_memory_mib, card.free_milli
        return made

    def expect(self, leaving: Running) -> None:
        """What this work holds here will come free."""
        if self.coming is None:
            self.coming = self.twin(self.now)
        self.leavings += 1
        for task in leaving.tasks:
            index = self.index_of.get(task.node_id)
            if index is not None:
                release(self.coming.nodes[index], leaving, task)
                touch(self.coming, index)

    def settle(self, ask: Ask, tasks: Tasks, found_in: PoolRoom, *, lasts: bool) -> None:
        """Bring all views in step after tasks were placed in one of them. ``lasts``: beyond the reservation's start."""
        if self.spare is not None and lasts:
            self._subtract(self.spare, ask, tasks)
        for room in (self.now, self.bare, self.coming):
            if room is not None and room is not found_in:
                self._subtract(room, ask, tasks)
        self._clamp_lasting(tasks, but=found_in)

    def claim(self, ask: Ask, search: Search, *, lasts: bool) -> Tasks | None:
        """Hold room that is free or coming for a request that cannot start yet; None when there is not enough.
        ``search`` looks in ``coming``, and was made after room was last added to it."""
        if self.coming is None:
            return None
        beside = self.spare if lasts else None
        tasks = search.place() if beside is None else self._claim_beside(self.coming, beside, ask)
        if tasks is None:
            return None
        if self.bare is None:
            self.bare = self.twin(self.now)
        for index in {self.index_of[task.node_id] for task in tasks}:
            clamp(self.now.nodes[index], self.coming.nodes[index])
            touch(self.now, index)
        self._clamp_lasting(tasks, but=None)
        return tasks

    def _claim_beside(self, coming: PoolRoom, spare: PoolRoom, ask: Ask) -> Tasks | None:
        """A claim that leaves the pool's reservation its room."""
        room = self.twin(coming)
        for index, node in enumerate(room.nodes):
            clamp(node, spare.nodes[index])
        tasks = Search(room, ask).place()
        if tasks is not None:
            self._subtract(coming, ask, tasks)
            self._subtract(spare, ask, tasks)
        return tasks

    def reserve(self, spare: PoolRoom) -> None:
        """From now on ``spare`` is what lasting work may use beside the pool's reservation."""
        self.spare = spare
        self.lasting = self.twin(self.now)
        for index, node in enumerate(self.lasting.nodes):
            clamp(node, spare.nodes[index])

    def _clamp_lasting(self, tasks: Tasks, but: PoolRoom | None) -> None:
        if self.lasting is None or self.spare is None or self.lasting is but:
            return
        for index in {self.index_of[task.node_id] for task in tasks}:
            clamp(self.lasting.nodes[index], self.now.nodes[index])
            clamp(self.lasting.nodes[index], self.spare.nodes[index])
            touch(self.lasting, index)

    def _subtract(self, room: PoolRoom, ask: Ask, tasks: Tasks) -> None:
        for task in tasks:
            index = self.index_of[task.node_id]
            node = room.nodes[index]
            node.free_cpu_milli -= ask.cpu_milli
            node.free_memory_mib -= ask.memory_mib
            for card in node.cards:
                for share in task.shares:
                    if share.device_id == card.id:
                        card.free_memory_mib -= share.memory_mib
                        card.free_milli -= share.compute_milli
                        node.free_milli -= share.compute_milli
            touch(room, index)


def touch(room: PoolRoom, index: int) -> None:
    """Let searches know that the node has changed."""
    room.nodes[index].version += 1
    room.changes.append(index)


def release(node: NodeRoom, work: Running, task: TaskPlacement) -> None:
    """Give back to the node what one task of the work holds on it."""
    node.free_cpu_milli += work.resources.cpu_milli
    node.free_memory_mib += work.resources.memory_mib
    _change(node, task, 1)


def seize(node: NodeRoom, work: Running, task: TaskPlacement) -> None:
    """Undo `release`."""
    node.free_cpu_milli -= work.resources.cpu_milli
    node.free_memory_mib -= work.resources.memory_mib
    _change(node, task, -1)


def _change(node: NodeRoom, task: TaskPlacement, sign: int) -> None:
    for share in task.shares:
        for card in node.cards:
            if card.id == share.device_id:
                card.free_memory_mib += sign * share.memory_mib
                card.free_milli += sign * share.compute_milli
                node.free_milli += sign * share.compute_milli
                break
        else:
            for card in node.broken:
                if card.id == share.device_id:
                    card.free_memory_mib += sign * share.memory_mib
                    card.free_milli += sign * share.compute_milli


def copied(node: NodeRoom) -> NodeRoom:
    """The node with cards of its own, to try things on."""
    made = NodeRoom.__new__(NodeRoom)
    made.id, made.is_open, made.labels, made.version = node.id, node.is_open, node.labels, node.version
    made.free_cpu_milli, made.free_memory_mib, made.free_milli = (
        node.free_cpu_milli,
        node.free_memory_mib,
        node.free_milli,
    )
    made.cards, made.broken = _copied_cards(node.cards), _copied_cards(node.broken)
    return made


def _copied_cards(cards: Sequence[CardRoom]) -> list[CardRoom]:
    return [CardRoom(card.id, card.kind, card.memory_mib, card.free_memory_mib, card.free_milli) for card in cards]


def clamp(node: NodeRoom, most: NodeRoom) -> None:
    """Leave the node no more than the other view of it has."""
    node.free_cpu_milli = min(node.free_cpu_milli, most.free_cpu_milli)
    node.free_memory_mib = min(node.free_memory_mib, most.free_memory_mib)
    for card, other in zip(node.cards, most.cards, strict=True):
        card.free_memory_mib = min(card.free_memory_mib, other.free_memory_mib)
        card.free_milli = min(card.free_milli, other.free_milli)
    node.free_milli = sum(card.free_milli for card in node.cards)


def grounds_of(snapshot: Snapshot, lenders: Collection[str]) -> dict[str, Ground]:
    """By pool. One that lends right now packs its own work, so that whole cards come free to lend."""
    rows: dict[str, list[Node]] = {pool.id: [] for pool in snapshot.pools}
    for node in snapshot.nodes:
        if node.pool_id in rows:
            rows[node.pool_id].append(node)
    mixes = {mix.pool_id: mix for mix in snapshot.mixes}
    grounds = {}
    for pool in snapshot.pools:
        packs = pool.id in lenders and pool.strategy is not Strategy.PACK
        packed = replace(pool, strategy=Strategy.PACK) if packs else pool
        grounds[pool.id] = Ground(packed, rows[pool.id], mixes.get(pool.id))
    return grounds


def held_in(snapshot: Snapshot, grounds: Mapping[str, Ground]) -> dict[str, list[Running]]:
    """By pool, the running work that holds something on its nodes, by id."""
    pool_of = {node_id: pool_id for pool_id, ground in grounds.items() for node_id in ground.index_of}
    held: dict[str, list[Running]] = {}
    for work in sorted(snapshot.running, key=lambda one: one.id):
        for pool_id in {pool_of.get(task.node_id) for task in work.tasks}:
            if pool_id is not None:
                held.setdefault(pool_id, []).append(work)
    return held
