"""Simulations that people start from a page: one at a time each, few at once, in processes of their own.

A run takes a core for seconds. The workers of the queue decide and sweep every second, so it is none of theirs: a
thread here waits for its process. What comes of it is kept in the cache for a day, and nowhere else.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.core.cache import cache

AT_ONCE: Final = 2  # in each process that serves pages
TIME_LIMIT_S: Final = 180  # of one scenario
_KEPT_S: Final = 24 * 3600
_SILENT_S: Final = 60  # a run that says nothing for so long is gone, with the process that watched it
_slots = threading.BoundedSemaphore(AT_ONCE)


@dataclass(frozen=True, slots=True)
class Run:
    """``typed``: the form that it was started from. ``results`` by the scenario's name, when it is over."""

    started_at: datetime
    typed: Mapping[str, Any]
    is_running: bool
    percent: int = 0
    results: Mapping[str, Mapping[str, Any]] | None = None
    error: str = ""


def latest_run(user_id: int) -> Run | None:
    """The person's last run, under way or over. None: there is none, or it is long ago."""
    run: Run | None = cache.get(_key(user_id))
    if run is not None and run.is_running and cache.get(_alive(user_id)) is None:
        return Run(run.started_at, run.typed, is_running=False, error="lost")
    return run


def start_run(user_id: int, scenarios: Mapping[str, Mapping[str, Any]], typed: Mapping[str, Any], at: datetime) -> bool:
    """False, with nothing started: this person's last one is under way, or all slots are taken."""
    if not _slots.acquire(blocking=False):
        return False
    if not cache.add(_alive(user_id), 1, _SILENT_S):
        _slots.release()
        return False
    cache.set(_key(user_id), Run(at, typed, is_running=True), _KEPT_S)
    threading.Thread(target=_watch, args=(user_id, scenarios, typed, at), daemon=True).start()
    return True


def _watch(user_id: int, scenarios: Mapping[str, Mapping[str, Any]], typed: Mapping[str, Any], at: datetime) -> None:
    results: dict[str, Mapping[str, Any]] = {}
    error = ""
    try:
        for place, (name, scenario) in enumerate(scenarios.items()):
            for line in _lines(scenario):
                error = line.get("error", "")
                if "results" in line:
                    results[name] = line["results"]
                percent = (100 * place + line.get("percent", 0)) // len(scenarios)
                cache.set(_alive(user_id), 1, _SILENT_S)
                cache.set(_key(user_id), Run(at, typed, is_running=True, percent=percent), _KEPT_S)
            if error or name not in results:
                error = error or "broken"
                break
    finally:
        over = Run(at, typed, is_running=False, percent=100, results=None if error else results, error=error)
        cache.set(_key(user_id), over, _KEPT_S)
        cache.delete(_alive(user_id))
        _slots.release()


def _lines(scenario: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What the simulation says. Its process ends with the iterator, and at the time limit."""
    command: Sequence[str] = [sys.executable, "-m", "aistation.scheduling.whatif_run"]
    with subprocess.Popen(
        command,
        cwd=settings.BASE_DIR,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        end = threading.Timer(TIME_LIMIT_S, process.kill)
        end.start()
        try:
            assert process.stdin is not None and process.stdout is not None  # noqa: S101 - for the type checker
            process.stdin.write(json.dumps(scenario))
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)
        finally:
            end.cancel()
            process.kill()


def _key(user_id: int) -> str:
    return f"whatif.{user_id}"


def _alive(user_id: int) -> str:
    return f"whatif.{user_id}.alive"
