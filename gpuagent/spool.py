"""One task's log on disk: both streams in one file, in the order in which they were seen.

The file is a row of frames: one byte for the stream, four for the length (big endian), then the bytes. One
writer appends, any number of readers follow. A frame that is not yet complete is not there: a writer that
died in the middle of one leaves a torn tail, which readers wait for and the next writer cuts off.

Only the standard library is imported: the supervisor of plain processes loads this module in a small
interpreter of its own.
"""

import os
import struct

MAX_FRAME = 64 * 1024
STDOUT = 1
STDERR = 2
TRUNCATED = 255  # an empty frame of this kind ends a log that reached its limit

_HEADER = struct.Struct(">BI")


class SpoolWriter:
    """Appends to a spool up to ``limit`` bytes of log; what comes after is dropped and marked once.

    Opening a spool again continues it: ``size`` and ``stream_sizes`` tell what is there already.
    """

    def __init__(self, path: str | os.PathLike[str], limit: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._path = path
        self._limit = limit
        reader = SpoolReader(path)
        reader.skip_to_end()
        self.size = reader.offset
        self.stream_sizes = dict(reader.stream_sizes)
        self.is_truncated = reader.is_truncated
        if self.is_truncated:
            self._limit = self.size
        self._position = reader.position
        os.ftruncate(self._fd, self._position)
        reader.close()

    def write(self, stream: int, data: bytes) -> None:
        """Append ``data`` of one stream. OSError when the disk refuses; the spool then stays as it was."""
        room = self._limit - self.size
        kept = data[:room] if len(data) > room else data
        for start in range(0, len(kept), MAX_FRAME):
            self._append(stream, kept[start : start + MAX_FRAME])
        if len(kept) < len(data):
            self.mark_truncated()

    def mark_truncated(self) -> None:
        """End the log here: bytes that belong behind this point are lost."""
        if not self.is_truncated:
            self._append(TRUNCATED, b"")
            self.is_truncated = True
            self._limit = self.size

    def read_tail(self, stream: int, length: int) -> bytes:
        """The last ``length`` bytes of one stream, read anew from the file."""
        reader = SpoolReader(self._path)
        tail = b""
        while runs := reader.read(1024 * 1024):
            data = b"".join(body for kind, _, body in runs if kind == stream)
            tail = (tail + data)[-length:] if length else b""
        reader.close()
        return tail

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, stream: int, data: bytes) -> None:
        start = self._position
        frame = memoryview(_HEADER.pack(stream, len(data)) + data)
        try:
            while frame:
                written = os.pwrite(self._fd, frame, self._position)
                self._position += written
                frame = frame[written:]
        except OSError:
            os.ftruncate(self._fd, start)
            self._position = start
            raise
        self.size += len(data)
        self.stream_sizes[stream] = self.stream_sizes.get(stream, 0) + len(data)


class SpoolReader:
    """Follows a spool. ``position`` is a place in the file, ``offset`` the log bytes before it.

    A reader may start at a position that an earlier one had, together with its ``frame_offset``.
    """

    def __init__(self, path: str | os.PathLike[str], position: int = 0, offset: int = 0) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.position = position
        self.offset = offset
        self.stream_sizes: dict[int, int] = {}
        self.is_truncated = False
        self._inside = 0  # bytes of the frame at ``position`` that ``offset`` already counts

    @property
    def frame_offset(self) -> int:
        """The log offset at ``position``: together they make a place to start from."""
        return self.offset - self._inside

    def read(self, max_bytes: int) -> list[tuple[int, int, bytes]]:
        """Up to ``max_bytes`` from here on as (stream, offset, bytes); neighbours of one stream are one run."""
        runs: list[tuple[int, int, list[bytes]]] = []
        block = os.pread(self._fd, max_bytes + _HEADER.size + MAX_FRAME, self.position)
        start = 0  # of the frame, in block
        while max_bytes > 0 and (frame := _frame(block, start)):
            stream, length = frame
            body = block[start + _HEADER.size + self._inside : start + _HEADER.size + length][:max_bytes]
            if body:
                if runs and runs[-1][0] == stream:
                    runs[-1][2].append(body)
                else:
                    runs.append((stream, self.offset, [body]))
            max_bytes -= len(body)
            self.offset += len(body)
            self._inside += len(body)
            if self._inside < length:
                break
            start += self._finish_frame(stream, length)
        return [(stream, offset, b"".join(parts)) for stream, offset, parts in runs]

    def skip_to_end(self) -> None:
        """Go behind the last complete frame."""
        while block := os.pread(self._fd, 1024 * 1024, self.position):
            start = 0
            while frame := _frame(block, start):
                stream, length = frame
                self.offset += length - self._inside
                start += self._finish_frame(stream, length)
            if start == 0:
                break

    def seek(self, offset: int) -> None:
        """Go to a log offset, or to the end when there are fewer bytes. Goes backwards by starting over."""
        if offset < self.offset:
            self.position = self.offset = self._inside = 0
            self.is_truncated = False
            self.stream_sizes.clear()
        while self.offset < offset and self.read(min(offset - self.offset, 1024 * 1024)):
            pass

    def has_more(self) -> bool:
        """True when the file holds something behind this point, be it a torn frame."""
        return os.fstat(self._fd).st_size > self.position or self._inside > 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _finish_frame(self, stream: int, length: int) -> int:
        self.stream_sizes[stream] = self.stream_sizes.get(stream, 0) + length
        self.is_truncated |= stream == TRUNCATED
        self._inside = 0
        self.position += _HEADER.size + length
        return _HEADER.size + length


def _frame(block: bytes, start: int) -> tuple[int, int] | None:
    """Stream and length of the complete frame at ``start``; None when it is not whole in ``block``."""
    if len(block) < start + _HEADER.size:
        return None
    stream, length = _HEADER.unpack_from(block, start)
    if len(block) < start + _HEADER.size + length:
        return None
    return stream, length
