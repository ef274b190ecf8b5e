"""Logs as bytes: stored as they come, read by offset."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F, Sum

from aistation.core.dispatch import broadcast_on_commit
from aistation.workloads.models import LogChunk, Task
from aistation.workloads.reports import is_complete


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of one stream at ``offset`` of the task's log."""

    task_uid: str
    nonce: str
    stream: str
    offset: int
    data: bytes


def store_chunks(*, node_id: int, chunks: Sequence[Chunk], now: datetime) -> dict[str, int]:
    """Append what is new and follows without a gap. Returns the bytes held of each task that is this node's.

    Repeated bytes are skipped, a chunk behind a gap is left out: the answer tells the agent where to go on.
    """
    held: dict[str, int] = {}
    by_task: dict[tuple[str, str], list[Chunk]] = {}
    for chunk in chunks:
        by_task.setdefault((chunk.task_uid, chunk.nonce), []).append(chunk)
    for (uid, nonce), own in sorted(by_task.items()):
        with transaction.atomic():
            task = Task.objects.select_for_update(no_key=True).filter(uid=uid, nonce=nonce, node_id=node_id).first()
            if task is not None:
                held[uid] = _append(task, own, now)
    return held


def _append(task: Task, chunks: Sequence[Chunk], now: datetime) -> int:
    rows = []
    end = task.log_stored
    for chunk in sorted(chunks, key=lambda chunk: chunk.offset):
        fresh = chunk.data[end - chunk.offset :] if chunk.offset <= end else b""
        if fresh:
            rows.append(LogChunk(task=task, offset=end, stream=chunk.stream, size=len(fresh), data=fresh))
            end += len(fresh)
    if rows:
        LogChunk.objects.bulk_create(rows)
        task.log_stored = end
        task.save(update_fields=["log_stored"])
        broadcast_on_commit(f"log.{task.attempt.workload.uid}", {"type": "log", "task": task.uid, "stored": end})
    if is_complete(task):
        task.settled_at = now
        task.save(update_fields=["settled_at"])
    return end


def read(
    task_id: int, *, offset: int = 0, limit: int = 1 << 20, stream: str | None = None, until: int | None = None
) -> tuple[bytes, int]:
    """Up to about ``limit`` bytes of a task's log from ``offset`` on, and the offset to go on from.

    Offsets count the bytes of both streams, also when only one of them is asked for. ``until``: a length of the log
    that was seen before; what has come since is left out.
    """
    parts: list[bytes] = []
    size = 0
    next_offset = offset
    rows = LogChunk.objects.filter(task_id=task_id, offset__gt=offset - (1 << 20)).order_by("offset")
    rows = rows.annotate(end=F("offset") + F("size")).filter(end__gt=offset)
    if until is not None:
        rows = rows.filter(offset__lt=until)
    for chunk in rows.iterator(chunk_size=8):
        if size >= limit:
            break
        if stream is None or chunk.stream == stream:
            data = bytes(chunk.data)[max(0, offset - chunk.offset) :]
            parts.append(data)
            size += len(data)
        next_offset = chunk.offset + chunk.size
    return b"".join(parts), next_offset


def read_all(task_id: int, *, offset: int = 0, stream: str | None = None, until: int | None = None) -> Iterator[bytes]:
    """The log from ``offset`` to its present end, in pieces of about a MiB: memory stays bounded."""
    while True:
        data, after = read(task_id, offset=offset, stream=stream, until=until)
        if after == offset:
            return
        if data:
            yield data
        offset = after


def total_bytes(task_id: int, stream: str | None = None) -> int:
    """Bytes that the server holds of a task's log, or of one stream of it."""
    rows = LogChunk.objects.filter(task_id=task_id)
    if stream is not None:
        rows = rows.filter(stream=stream)
    return int(rows.aggregate(total=Sum("size"))["total"] or 0)
