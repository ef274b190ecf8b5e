"""How this agent stands with the server. Written by the heartbeat, read by everything that acts."""

import threading


class Standing:
    """``is_confirmed``: the server took a heartbeat of this very process as this node's.

    Until then nothing is started, so that a copy of a node cannot run its tasks a second time. ``is_rival``:
    the server says that another agent is this node; nothing at all is touched then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_confirmed = False
        self._is_rival = False

    def confirm(self) -> bool:
        """True when this is news."""
        with self._lock:
            is_news = not self._is_confirmed or self._is_rival
            self._is_confirmed, self._is_rival = True, False
            return is_news

    def mark_rival(self) -> bool:
        """True when this is news."""
        with self._lock:
            is_news = not self._is_rival
            self._is_rival = True
            return is_news

    @property
    def may_start(self) -> bool:
        with self._lock:
            return self._is_confirmed and not self._is_rival

    @property
    def may_touch(self) -> bool:
        with self._lock:
            return not self._is_rival
