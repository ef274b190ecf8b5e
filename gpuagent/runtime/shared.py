"""Work that several tasks may wait for, such as fetching one image: done once, given up by each waiter alone."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from agentapi.v1 import ErrorCode
from gpuagent.runtime.base import CancelledError, TaskError

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.05


class SharedWork:
    """Runs one piece of work per key at a time, in a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, _Piece] = {}

    def wait_for(self, key: str, work: Callable[[], None], cancelled: threading.Event) -> None:
        """Start ``work`` unless it is under way for this key, and wait for its end. Raises the TaskError it raised.

        CancelledError when ``cancelled`` is set first; the work goes on for the others.
        """
        with self._lock:
            piece = self._running.get(key)
            if piece is None or piece.done.is_set():
                piece = self._running[key] = _Piece(key, work)
                piece.start()
        while not piece.done.wait(_LOOK_S):
            if cancelled.is_set():
                raise CancelledError
        if piece.error is not None:
            raise TaskError(piece.error.code, str(piece.error))


class _Piece(threading.Thread):
    def __init__(self, key: str, work: Callable[[], None]) -> None:
        super().__init__(name=f"prepare {key}"[:60], daemon=True)
        self._work = work
        self.done = threading.Event()
        self.error: TaskError | None = None

    def run(self) -> None:
        try:
            self._work()
        except TaskError as error:
            self.error = error
        except Exception as error:
            log.exception("%s failed", self.name)
            self.error = TaskError(ErrorCode.RUNTIME, f"the agent failed: {type(error).__name__}")
        finally:
            self.done.set()
