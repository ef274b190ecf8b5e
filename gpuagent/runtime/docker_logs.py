"""Brings a container's output into its spool, byte for byte.

A container that this agent starts is attached to before it runs: that is its raw output, at once, without regard
to lines. Where an attachment was missing for a while (the agent or the engine was restarted), the engine's
own log is read instead and as much of each stream skipped as the spool holds already. The engine's log delays
what has no line end, and some engines lose the end of a line that is longer than their buffer: it is put back.
"""

import logging
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import requests
from docker import APIClient
from docker.errors import DockerException, NotFound
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from gpuagent.runtime.docker_engine import end_stream, open_stream
from gpuagent.spool import STDERR, STDOUT, SpoolWriter

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
_CLOSE_S: Final = 5.0
_TAIL: Final = 4096  # bytes compared to see whether the engine's log still begins at the start
_PIECE: Final = 16 * 1024  # longer lines are stored in pieces of this size, all with one time stamp
_LOG: Final = {"stdout": 1, "stderr": 1, "timestamps": 1}
_HEADER: Final = struct.Struct(">BxxxL")


class LogPump(threading.Thread):
    """Copies one container's output until it has ended or its log is full.

    ``attachment`` None: start with the engine's log. ``generation`` counts the engine's outages: an attachment
    that ended without one in between was complete.
    """

    def __init__(
        self,
        client: APIClient,
        container_id: str,
        spool: SpoolWriter,
        attachment: requests.Response | None,
        generation: Callable[[], int],
    ) -> None:
        super().__init__(name=f"log {container_id[:12]}", daemon=True)
        self._client = client
        self._container_id = container_id
        self._spool = spool
        self._stream = attachment
        self._generation = generation
        self._began_in = generation()
        self._is_closed = threading.Event()

    def close(self) -> None:
        """Stop copying; what the spool lacks then is fetched by the next pump."""
        self._is_closed.set()
        if self._stream is not None:
            end_stream(self._stream)
        if self.is_alive():
            self.join(_CLOSE_S)

    def run(self) -> None:
        try:
            is_complete = self._stream is not None and self._copy_attachment(self._stream)
            while not is_complete and not self._is_closed.is_set():
                is_complete = self._copy_engine_log()
                if not is_complete:
                    self._is_closed.wait(_RETRY_S)
        except OSError as error:  # the disk is full: the log ends here, the container goes on
            log.warning("the log of container %s ends: %s", self._container_id[:12], error.strerror)
        finally:
            self._spool.close()

    def _copy_attachment(self, attachment: requests.Response) -> bool:
        """Copy to the end. True: there is nothing more to come."""
        with attachment:
            for stream, data in _frames(attachment):
                self._spool.write(stream, data)
                if self._spool.is_truncated:
                    return True
        return not self._is_closed.is_set() and self._generation() == self._began_in

    def _copy_engine_log(self) -> bool:
        """Copy what the spool lacks and follow to the end. True: the container has ended and all is copied."""
        self._began_in = self._generation()
        has_ended = self._has_ended()
        if has_ended is None:
            return True
        path = f"/containers/{self._container_id}/logs"
        try:
            with open_stream(self._client, "GET", path, **_LOG, follow=int(not has_ended)) as response:
                self._stream = response
                is_aligned = self._copy_frames(_restored(_frames(response)))
        except (DockerException, RequestException):
            return False
        if not is_aligned or self._spool.is_truncated:
            self._spool.mark_truncated()
            return True
        return has_ended

    def _copy_frames(self, frames: Iterable[tuple[int, bytes]]) -> bool:
        """False: the engine's log no longer goes back to what the spool holds."""
        skips = {stream: _Skip(*_tail_of(self._spool, stream)) for stream in (STDOUT, STDERR)}
        for stream, data in frames:
            rest = skips[stream].feed(data)
            if rest is None:
                return False
            if rest:
                self._spool.write(stream, rest)
            if self._spool.is_truncated or self._is_closed.is_set():
                break
        return True

    def _has_ended(self) -> bool | None:
        """None: the container does not exist any more."""
        try:
            return not self._client.inspect_container(self._container_id)["State"]["Running"]
        except NotFound:
            return None
        except (DockerException, RequestException):
            return False


class _LineEnds:
    """Puts back the line ends of one stream that the engine's log lost behind lines of several pieces.

    A last line of several pieces that had no end gets one where the engine loses them: its log does not tell
    the two apart.
    """

    def __init__(self) -> None:
        self._stamp = b""
        self._is_open = False  # the last piece had no line end
        self._is_full = False  # and there was no room for one in it
        self._is_continued = False  # and it was not the first of its line
        self._engine_keeps_ends = False

    def feed(self, stamp: bytes, data: bytes) -> bytes:
        """The bytes that one entry of the log stands for."""
        continues = self._is_open and self._is_full and stamp == self._stamp
        lost = b"\n" if self._is_open and not continues and self._is_continued else b""
        self._stamp = stamp
        self._is_open = not data.endswith(b"\n")
        self._is_full = len(data) == _PIECE
        self._is_continued = continues
        self._engine_keeps_ends |= continues and not self._is_open
        return lost + data

    def finish(self) -> bytes:
        """What is missing at the end of the log."""
        is_lost = self._is_open and self._is_continued and not self._is_full and not self._engine_keeps_ends
        return b"\n" if is_lost else b""


def _restored(frames: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The output that the entries of a log with time stamps stand for."""
    line_ends = {STDOUT: _LineEnds(), STDERR: _LineEnds()}
    for stream, entry in frames:
        stamp, _, data = entry.partition(b" ")
        yield stream, line_ends[stream].feed(stamp, data)
    for stream, ends in line_ends.items():
        yield stream, ends.finish()


class _Skip:
    """Drops the first ``size`` bytes of a stream and checks that they end in ``tail``."""

    def __init__(self, size: int, tail: bytes) -> None:
        self._left = size
        self._expected = tail
        self._seen = b""

    def feed(self, data: bytes) -> bytes | None:
        """What lies behind the skipped part; None when that part is not what was expected."""
        if self._left == 0:
            return data
        skipped, rest = data[: self._left], data[self._left :]
        self._left -= len(skipped)
        self._seen = (self._seen + skipped)[-len(self._expected) :]
        if self._left == 0 and self._seen != self._expected:
            return None
        return rest


def _tail_of(spool: SpoolWriter, stream: int) -> tuple[int, bytes]:
    """How much of a stream the spool holds, and its last bytes."""
    size = spool.stream_sizes.get(stream, 0)
    return size, spool.read_tail(stream, min(size, _TAIL))


def open_attachment(client: APIClient, container_id: str) -> requests.Response:
    """The container's raw output from now on, as frames of both streams."""
    return open_stream(client, "POST", f"/containers/{container_id}/attach", stream=1, stdout=1, stderr=1)


def _frames(response: requests.Response) -> Iterator[tuple[int, bytes]]:
    """Stream and bytes of each frame until the answer ends, in whatever way."""
    try:
        while len(header := response.raw.read(_HEADER.size)) == _HEADER.size:
            stream, length = _HEADER.unpack(header)
            data = response.raw.read(length)
            if len(data) < length:
                return
            yield stream, data
    except (RequestException, HTTPError, ValueError):
        return
