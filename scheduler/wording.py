"""How the core says quantities to people. Integers in, short English out, never a float."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from scheduler.model import WHOLE_CARD_MILLI


def thousandths(milli: int) -> str:
    """1500 -> "1.5", 125 -> "0.125", 2000 -> "2"."""
    sign, size = ("-", -milli) if milli < 0 else ("", milli)
    whole, rest = divmod(size, 1000)
    return f"{sign}{whole}.{rest:03d}".rstrip("0").rstrip(".") if rest else f"{sign}{whole}"


def counted(number: int, noun: str) -> str:
    """1 -> "1 task", 3 -> "3 tasks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def cards(milli: int) -> str:
    """Card equivalents: "1 card", "0.125 cards"."""
    return f"{thousandths(milli)} card" if milli == WHOLE_CARD_MILLI else f"{thousandths(milli)} cards"


def cores(milli: int) -> str:
    return f"{thousandths(milli)} CPU core" if milli == 1000 else f"{thousandths(milli)} CPU cores"


def mib(number: int) -> str:
    return f"{number // 1024} GiB" if number and number % 1024 == 0 else f"{number} MiB"


def instant(at_us: int) -> str:
    """ "2026-03-02 20:00 UTC", rounded up to the minute."""
    minutes = -(-at_us // 60_000_000)
    return f"{datetime.fromtimestamp(0, UTC) + timedelta(minutes=minutes):%Y-%m-%d %H:%M} UTC"


AMOUNT: Final[Mapping[str, Callable[[int], str]]] = {
    "tasks": lambda number: counted(number, "task"),
    "gpus": lambda number: counted(number, "card"),
    "gpu_slices": lambda number: counted(number, "slice"),
    "gpu_memory_mib": lambda number: f"{mib(number)} of GPU memory",
    "gpu_compute_milli": lambda number: f"{number} thousandths of a card's compute",
    "gpu_milli": cards,
    "cpu_milli": cores,
    "memory_mib": lambda number: f"{mib(number)} of memory",
    "environments": lambda number: counted(number, "environment"),
    "running_jobs": lambda number: counted(number, "running job"),
}
"""Words for each quantity that reasons and refusals speak of."""
