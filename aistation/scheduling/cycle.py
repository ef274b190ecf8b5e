"""One decision: snapshot, `scheduler.decide`, apply."""

import logging
import os
import socket
import time
from dataclasses import dataclass
from typing import Final

from aistation.core.clock import database_now
from aistation.scheduling import lease
from aistation.scheduling.apply import apply_plan
from aistation.scheduling.journal import keep
from aistation.scheduling.models import SchedulerLease
from aistation.scheduling.snapshot import take_snapshot
from scheduler.decide import decide

logger = logging.getLogger(__name__)
ROUNDS: Final = 20  # of one holder; then another message or the tick goes on


@dataclass(frozen=True, slots=True)
class Cycle:
    """``decided`` false: somebody else was at it and goes round once more for us."""

    decided: bool
    rounds: int = 0
    placed: int = 0
    waiting: int = 0


def run_cycle() -> Cycle:
    """Decide until nothing has changed meanwhile. Safe to call from any number of processes at once."""
    with lease.hold(f"{socket.gethostname()}:{os.getpid()}") as held:
        if held is None:
            return Cycle(decided=False)
        seen, placed, waiting, rounds = held.requested, 0, 0, 0
        started = time.monotonic()
        for _ in range(ROUNDS):
            rounds += 1
            now = database_now()
            snapshot = take_snapshot(epoch=held.epoch, now=now)
            if not (snapshot.pending or snapshot.lending):  # lent cards are taken back though nobody waits
                waiting = 0
            else:
                keep(snapshot)
                plan = decide(snapshot)
                applied = apply_plan(plan, now=now)
                placed += applied.placed
                waiting = len(plan.waiting)
            wishes = lease.wishes()
            if wishes == seen:
                break
            seen = wishes
        elapsed_ms = round((time.monotonic() - started) * 1000)
        SchedulerLease.objects.filter(pk=1, epoch=held.epoch).update(
            last_cycle_at=database_now(), last_cycle_ms=elapsed_ms
        )
        return Cycle(decided=True, rounds=rounds, placed=placed, waiting=waiting)
