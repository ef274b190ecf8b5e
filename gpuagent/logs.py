"""Ships the spools to the server: every byte once, in order, however often either side restarts."""

import logging
from dataclasses import dataclass
from typing import Final

from agentapi.v1 import MAX_LOG_BATCH, MAX_LOG_CHUNK, LogBatch, LogChunk, Stream
from gpuagent.client import Client, ServerError
from gpuagent.lifecycle import is_ended
from gpuagent.spool import STDOUT, SpoolReader
from gpuagent.store import Cursor, Store
from gpuagent.tasks import Task, TaskBook
from gpuagent.threads import Loop

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.1  # while something runs
_IDLE_S: Final = 1.0
_RETRY_S: Final = 0.5
_LONGEST_RETRY_S: Final = 5.0
_MAX_CHUNKS: Final = 1000  # of one batch: many short lines that alternate between the streams


@dataclass(slots=True)
class _Shipment:
    """One task's log on its way. ``stored`` is how much the server is known to hold."""

    task: Task
    reader: SpoolReader
    stored: int
    is_refused: bool = False  # the server does not know the task: its log is of no use


class LogShipper(Loop):
    """Reads the spools of all tasks in turn, so that a flood of one does not hold up the others."""

    def __init__(self, client: Client, book: TaskBook, store: Store) -> None:
        super().__init__("logs")
        self._client = client
        self._book = book
        self._store = store
        self._shipments: dict[str, _Shipment] = {}
        self._retry_s = _RETRY_S

    def step(self) -> float:
        if not self._client.node_token:
            return _IDLE_S
        shipments = self._refresh()
        chunks = self._collect(shipments)
        if chunks:
            try:
                moved = self._send(chunks)
            except ServerError as error:
                return self._fail(chunks, error)
            self._retry_s = _RETRY_S
        for shipment in shipments:
            self._close_finished(shipment)
        if chunks:
            return 0.0 if moved else _RETRY_S
        return _LOOK_S if shipments else _IDLE_S

    def _refresh(self) -> list[_Shipment]:
        """Shipments of all tasks that may have something to send; those of forgotten tasks are closed."""
        tasks = {task.spec.task_id: task for task in self._book.all() if not task.is_log_stored}
        for task_id in self._shipments.keys() - tasks.keys():
            self._shipments.pop(task_id).reader.close()
        for task_id, task in tasks.items():
            if task_id not in self._shipments:
                try:
                    reader = self._store.open_log(task_id)
                except FileNotFoundError:
                    continue  # cleared away since the look at the book
                self._shipments[task_id] = _Shipment(task, reader, reader.offset)
        return list(self._shipments.values())

    def _collect(self, shipments: list[_Shipment]) -> list[LogChunk]:
        """The next batch: from each log a share of the room, what is left over to those that have more."""
        chunks: list[LogChunk] = []
        room = MAX_LOG_BATCH
        hungry = [shipment for shipment in shipments if not shipment.is_refused]
        while hungry and room > 0 and len(chunks) < _MAX_CHUNKS:
            share = min(MAX_LOG_CHUNK, max(4096, room // len(hungry)))
            still_hungry = []
            for shipment in hungry:
                runs = shipment.reader.read(min(share, room))
                if runs:
                    still_hungry.append(shipment)
                room -= sum(len(data) for _, _, data in runs)
                chunks += [_chunk(shipment.task, *run) for run in runs]
                if room <= 0 or len(chunks) >= _MAX_CHUNKS:
                    break
            hungry = still_hungry
        return chunks

    def _send(self, chunks: list[LogChunk]) -> bool:
        """Send one batch and go on where the server says. False: it holds no more than before."""
        moved = False
        stored = self._client.send_logs(LogBatch(chunks=tuple(chunks))).stored
        for task_id in {chunk.task_id for chunk in chunks}:
            shipment = self._shipments[task_id]
            if task_id not in stored:
                log.info("the server does not know task %s: its log is dropped", task_id)
                shipment.is_refused = moved = True
                continue
            moved |= stored[task_id] > shipment.stored
            shipment.stored = stored[task_id]
            if shipment.stored != shipment.reader.offset:
                shipment.reader.seek(shipment.stored)
            self._store.save_cursor(task_id, _place(shipment.reader))
        return moved

    def _fail(self, chunks: list[LogChunk], error: ServerError) -> float:
        """Go back to what the server holds and rest longer each time."""
        log.debug("logs were not taken: %s", error)
        for task_id in {chunk.task_id for chunk in chunks}:
            shipment = self._shipments[task_id]
            shipment.reader.seek(shipment.stored)
        rest_s, self._retry_s = self._retry_s, min(_LONGEST_RETRY_S, 2 * self._retry_s)
        return rest_s

    def _close_finished(self, shipment: _Shipment) -> None:
        """Let the report of an ended task go once nothing more can come."""
        task = shipment.task
        total = task.report.log_bytes
        is_shipped = total is not None and shipment.stored >= total
        if is_ended(task.phase) and (shipment.is_refused or is_shipped):
            self._book.note_log_stored(task)


def _place(reader: SpoolReader) -> Cursor:
    return Cursor(reader.position, reader.frame_offset, reader.is_truncated)


def _chunk(task: Task, stream: int, offset: int, data: bytes) -> LogChunk:
    return LogChunk.model_construct(
        task_id=task.spec.task_id,
        nonce=task.spec.nonce,
        stream=Stream.STDOUT if stream == STDOUT else Stream.STDERR,
        offset=offset,
        data=data,
    )
