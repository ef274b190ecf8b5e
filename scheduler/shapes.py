"""Requests of one pool with equal needs: they cost the same and fit in the same places, so they share searches."""

from collections.abc import Mapping

from scheduler.capacity import Layout, PoolRoom, layout_of
from scheduler.ground import Ground
from scheduler.model import Request, Resources
from scheduler.search import Search
from scheduler.sizing import find_faults


class Shape:
    """Requests of one pool with equal needs: they cost the same and fit in the same places."""

    __slots__ = ("_coming", "_coming_seen", "ask", "claim_failed", "ground", "lasting", "now")

    def __init__(self, ground: Ground, request: Request) -> None:
        self.ground = ground
        self.ask = ground.now.ask(request.resources, request.tasks, layout_of(request))
        self.now = Search(ground.now, self.ask)
        self.lasting: Search | None = None
        self._coming: Search | None = None
        self._coming_seen = 0
        self.claim_failed: dict[bool, int] = {}  # by whether it lasts: how often room had been added then

    def search(self, *, lasts: bool) -> tuple[Search, PoolRoom]:
        room = self.ground.lasting
        if room is None or not lasts:
            return self.now, self.ground.now
        if self.lasting is None:
            self.lasting = Search(room, self.ask)
        return self.lasting, room

    def coming_search(self, room: PoolRoom) -> Search:
        """Made anew whenever room has been added: a search takes it that room only shrinks."""
        if self._coming is None or self._coming_seen != self.ground.leavings:
            self._coming, self._coming_seen = Search(room, self.ask), self.ground.leavings
        return self._coming


class Shapes:
    """The shape of each request, made when first asked for."""

    def __init__(self, grounds: Mapping[str, Ground]) -> None:
        self._grounds = grounds
        self._shapes: dict[tuple[str, int, int, Layout], tuple[int, Shape | None]] = {}
        self._known: dict[int, tuple[int, Shape | None]] = {}  # by identity of the request
        self._needs: dict[Resources, int] = {}
        self._needs_by_object: dict[int, int] = {}

    def of(self, request: Request) -> Shape | None:
        """None for a request that makes no sense or names a pool that is not there."""
        return self._find(request)[1]

    def number_of(self, request: Request) -> int:
        """The same for requests of one shape, and for those of equal needs that have none."""
        return self._find(request)[0]

    def _find(self, request: Request) -> tuple[int, Shape | None]:
        known = self._known.get(id(request))
        if known is None:
            known = self._known[id(request)] = self._look_up(request)
        return known

    def _look_up(self, request: Request) -> tuple[int, Shape | None]:
        needs = self._needs_by_object.get(id(request.resources))
        if needs is None:  # rows that are like one another often share the object, and hashing it costs more
            needs = self._needs.setdefault(request.resources, len(self._needs))
            self._needs_by_object[id(request.resources)] = needs
        key = (request.pool_id, needs, request.tasks, layout_of(request))
        found = self._shapes.get(key)
        if found is None:
            ground = self._grounds.get(request.pool_id)
            is_sound = ground is not None and not find_faults(request.resources, request.tasks)
            shape = Shape(ground, request) if ground is not None and is_sound else None
            found = self._shapes[key] = len(self._shapes), shape
        return found
