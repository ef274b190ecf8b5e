"""What will happen, in order of time."""

from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple


class Event(IntEnum):
    """What happens, in the order in which things of one instant happen."""

    END = 0
    LEFT = 1
    ARRIVE = 2
    LOOK = 3


class Entry(NamedTuple):
    at_us: int
    event: Event
    order: int
    name: str  # whose event it is
    attempt: int


class Agenda:
    """Things of one instant come by what they are, then as they were added."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._order = count()

    def add(self, at_us: int, event: Event, name: str = "", attempt: int = 0) -> None:
        heappush(self._entries, Entry(at_us, event, next(self._order), name, attempt))

    @property
    def next_us(self) -> int | None:
        return self._entries[0].at_us if self._entries else None

    def due(self, now_us: int) -> Iterator[Entry]:
        """All that happens now, also what is added for now meanwhile."""
        while self.next_us == now_us:
            yield heappop(self._entries)
