"""Reads of the scheduler's own state."""

from dataclasses import dataclass
from datetime import datetime

from aistation.scheduling.models import SchedulerLease


@dataclass(frozen=True, slots=True)
class SchedulerState:
    """What the last cycle left behind. None: there was none yet."""

    epoch: int
    last_cycle_at: datetime | None
    last_cycle_ms: int | None
    has_error: bool


def scheduler_state() -> SchedulerState:
    row = SchedulerLease.objects.get(pk=1)
    return SchedulerState(row.epoch, row.last_cycle_at, row.last_cycle_ms, bool(row.last_error))
