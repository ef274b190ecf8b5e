"""Brings a container's output into its spool, byte for byte.

A container that this agent starts is attached to before it runs: that is its raw output, at once, without regard
to lines. Where an attachment was missing for a while (the agent or the engine was restarted), the engine's
own log is read instead and as much of each stream skipped as the spool holds already. The engine's log delays
what has no line end; it is exact all the same.
"""

import logging
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import requests
from docker import APIClient
from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from gpuagent.spool import STDERR, STDOUT, SpoolWriter

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
_TAIL: Final = 4096  # bytes compared to see whether the engine's log still begins at the start
_HEADER: Final = struct.Struct(">BxxxL")

Attachment = Iterator[tuple[bytes | None, bytes | None]]


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
        attachment: Attachment | None,
        generation: Callable[[], int],
    ) -> None:
        super().__init__(name=f"log {container_id[:12]}", daemon=True)
        self._client = client
        self._container_id = container_id
        self._spool = spool
        self._attachment = attachment
        self._generation = generation
        self._began_in = generation()
        self._is_closed = threading.Event()

    def close(self) -> None:
        """Stop copying soon; what the spool lacks then is fetched by the next pump."""
        self._is_closed.set()
        close = getattr(self._attachment, "close", None)
        if close is not None:
            close()

    def run(self) -> None:
        try:
            is_complete = self._attachment is not None and self._copy_attachment(self._attachment)
            while not is_complete and not self._is_closed.is_set():
                is_complete = self._copy_engine_log()
                if not is_complete:
                    self._is_closed.wait(_RETRY_S)
        except OSError as error:  # the disk is full: the log ends here, the container goes on
            log.warning("the log of container %s ends: %s", self._container_id[:12], error.strerror)
        finally:
            self._spool.close()

    def _copy_attachment(self, attachment: Attachment) -> bool:
        """Copy to the end. True: there is nothing more to come."""
        try:
            for out, err in attachment:
                if out:
                    self._spool.write(STDOUT, out)
                if err:
                    self._spool.write(STDERR, err)
                if self._spool.is_truncated:
                    attachment.close()  # type: ignore[attr-defined]
                    return True
        except (DockerException, RequestException, HTTPError, ValueError):
            return False
        return not self._is_closed.is_set() and self._generation() == self._began_in

    def _copy_engine_log(self) -> bool:
        """Copy what the spool lacks and follow to the end. True: the container has ended and all is copied."""
        self._began_in = self._generation()
        has_ended = self._has_ended()
        if has_ended is None:
            return True
        try:
            with _open_log(self._client, self._container_id, follow=not has_ended) as response:
                is_aligned = self._copy_frames(_frames(response))
        except (DockerException, RequestException, HTTPError):
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


def _open_log(client: APIClient, container_id: str, *, follow: bool) -> requests.Response:
    """Both streams of the engine's log from the start; the SDK's own call does not tell them apart."""
    response = client.get(
        f"{client.base_url}/v{client.api_version}/containers/{container_id}/logs",
        params={"stdout": 1, "stderr": 1, "follow": int(follow)},
        stream=True,
        timeout=None if follow else 60,
    )
    if response.status_code != requests.codes.ok:
        response.close()
        raise APIError(f"reading the log failed with {response.status_code}", response=response)
    return response


def _frames(response: requests.Response) -> Iterator[tuple[int, bytes]]:
    while len(header := response.raw.read(_HEADER.size)) == _HEADER.size:
        stream, length = _HEADER.unpack(header)
        data = response.raw.read(length)
        if len(data) < length:
            return
        yield stream, data
