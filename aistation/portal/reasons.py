"""Why something waits, in the reader's language. The numbers come from the scheduler, the sentence from here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.utils.translation import get_language
from django.utils.translation import gettext as _

from aistation.portal import units
from aistation.portal.words import PENDING_REASONS

_QUOTA: Final = frozenset({"quota_user", "quota_group"})
_HARDWARE: Final = frozenset({"no_such_device", "node_unavailable"})


@dataclass(frozen=True, slots=True)
class Told:
    """``word``: the reason in two or three words; ``text``: with its numbers."""

    code: str
    word: str
    text: str


def tell_all(reasons: Sequence[Mapping[str, Any]]) -> list[Told]:
    return [tell(reason) for reason in reasons]


def tell(reason: Mapping[str, Any]) -> Told:
    """English is the scheduler's own sentence; other languages are put together from the numbers."""
    code = str(reason.get("code", ""))
    message = str(reason.get("message", ""))
    text = message[:1].upper() + message[1:]
    if not (get_language() or "en").startswith("en"):
        text = _sentence(code, reason.get("numbers") or {}) or text
    return Told(code, str(PENDING_REASONS.get(code, code)), text)


def amount(quantity: str, number: int) -> str:
    """A number of something that quotas and reasons speak of, in words."""
    if quantity == "gpu_milli":
        return units.cards(number)
    if quantity == "gpus":
        return units.cards(number * 1000)
    if quantity == "cpu_milli":
        return units.cores(number)
    if quantity in ("memory_mib", "gpu_memory_mib"):
        kind = _("of GPU memory") if quantity == "gpu_memory_mib" else _("of memory")
        return f"{units.memory(number)} {kind}"
    names = {
        "gpu_slices": _("%(number)s slices"),
        "gpu_compute_milli": _("%(number)s thousandths of compute"),
        "tasks": _("%(number)s tasks"),
        "environments": _("%(number)s environments"),
        "running_jobs": _("%(number)s running jobs"),
    }
    return names.get(quantity, "%(number)s") % {"number": number}


def _sentence(code: str, numbers: Mapping[str, Any]) -> str:
    """Empty: these numbers are not the usual ones of this reason."""
    quantity = str(numbers.get("quantity", ""))

    def said(key: str) -> str:
        return amount(quantity, int(numbers[key]))

    try:
        if code in ("quota_user", "quota_group"):
            values = {"used": said("used"), "limit": said("limit"), "asked": said("asked")}
            return _("%(used)s of %(limit)s used, this needs %(asked)s") % values
        if code == "pool_full":
            return _("Needs %(needed)s, free in the pool: %(free)s") % {"needed": said("needed"), "free": said("free")}
        if code == "fragmented":
            values = {"needed": said("needed"), "largest": said("largest_free")}
            return _("Needs %(needed)s in one place, the largest free place has %(largest)s") % values
        if code == "node_unavailable" and numbers.get("nodes"):
            return _("%(nodes)s nodes with room are out of service") % {"nodes": numbers["nodes"]}
        if code in ("reserved_for_other", "window_closed"):
            return _kept_or_closed(code, numbers)
    except (KeyError, TypeError, ValueError):
        return ""
    return _("Held; it waits until it is released") if code == "held" else ""


def _kept_or_closed(code: str, numbers: Mapping[str, Any]) -> str:
    """Room that is kept, and cards of another pool that are not to be had."""
    pool = {"pool": numbers.get("lender", "")}
    if "kept_slices" in numbers:
        return _("Pool %(pool)s keeps %(number)s slices free for its own work") % {
            **pool,
            "number": numbers["kept_slices"],
        }
    if "opens_at_us" in numbers:
        return _("Pool %(pool)s lends its cards again from %(time)s") % {
            **pool,
            "time": _minute(numbers["opens_at_us"]),
        }
    if code == "window_closed":
        return _("Pool %(pool)s lends no cards to work of this kind now") % pool
    who = str(numbers.get("workload") or _("work ahead"))
    if "starts_at_us" in numbers:
        return _("Room is kept for %(who)s, which can start by %(time)s") % {
            "who": who,
            "time": _minute(numbers["starts_at_us"]),
        }
    return _("Room is kept for %(who)s") % {"who": who}


def _minute(us: int) -> str:
    return f"{datetime.fromtimestamp(-(-int(us) // 60_000_000) * 60, UTC):%Y-%m-%d %H:%M} UTC"


def no_estimate(codes: Sequence[str]) -> str:
    """Why nobody can say when something that waits will start. ``codes``: of its reasons."""
    if not codes:
        return _("the scheduler has not looked at it yet")
    if "held" in codes:
        return _("it is held")
    if _QUOTA & set(codes):
        return _("a quota keeps it, and that has no end that is known")
    if "dependency" in codes:
        return _("it waits for another job")
    if _HARDWARE & set(codes):
        return _("no node in service has what it needs")
    return _("work without a time limit is ahead of it, or too many wait")
