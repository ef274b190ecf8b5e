"""May a request pass to an environment? The rules, pure, on what Envoy shows of it."""

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_HERE: Final = frozenset({"same-origin", "none"})

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to an environment's host. ``headers`` by lower-case name; ``own_origin`` is that of the host."""

    method: str
    own_origin: str
    headers: Mapping[str, str]

    @property
    def is_navigation(self) -> bool:
        """A person goes there with a browser: worth a redirect. Everything else is told that it may not."""
        if self.method not in ("GET", "HEAD") or self._is_websocket:
            return False
        mode = self.headers.get("sec-fetch-mode")
        return mode == "navigate" if mode else "text/html" in self.headers.get("accept", "")

    @property
    def is_from_own_page(self) -> bool:
        """False when a page of another origin, be it the neighbour environment's, may have sent it with our cookie.

        What changes something and what opens a socket must name the own origin. Of the rest browsers say whence it
        comes; only going to the address from elsewhere in a tab of its own is fine.
        """
        origin = self.headers.get("origin")
        if self._is_websocket or self.method not in _SAFE_METHODS:
            return origin == self.own_origin
        if origin is not None and origin != self.own_origin:
            return False
        site = self.headers.get("sec-fetch-site")
        if site is None or site in _HERE:
            return True
        return self.headers.get("sec-fetch-mode") == "navigate" and self.headers.get("sec-fetch-dest") == "document"

    @property
    def _is_websocket(self) -> bool:
        return "sec-websocket-version" in self.headers


def cookies_without(header: str, names: frozenset[str]) -> str:
    """A Cookie header less the named ones; the rest byte for byte, so that the container sees its own."""
    kept = [pair for pair in header.split(";") if pair.partition("=")[0].strip() not in names]
    return ";".join(kept).strip()


class Recent(Generic[K, V]):
    """Answers that hold for a moment: a page asks for a hundred files at once, the database need not be."""

    def __init__(self, *, lasts_s: float, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._lasts_s = lasts_s
        self._size = size
        self._clock = clock
        self._kept: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V | None:
        until, value = self._kept.get(key, (0.0, None))
        return value if until > self._clock() else None

    def put(self, key: K, value: V) -> None:
        now = self._clock()
        if len(self._kept) >= self._size:
            self._kept = {k: kept for k, kept in list(self._kept.items()) if kept[0] > now}
            if len(self._kept) >= self._size:
                self._kept = {}
        self._kept[key] = (now + self._lasts_s, value)
