"""How pages say quantities. Integers in, short text in the reader's language out."""

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext


def thousandths(milli: int) -> str:
    """1500 -> "1.5", 125 -> "0.125", 2000 -> "2": exact, without a float on the way."""
    sign, size = ("-", -milli) if milli < 0 else ("", milli)
    whole, rest = divmod(size, 1000)
    return f"{sign}{whole}.{rest:03d}".rstrip("0") if rest else f"{sign}{whole}"


def memory(mib: int) -> str:
    """MiB below 10 GiB that are no whole GiB stay exact; larger ones get one decimal."""
    if mib % 1024 == 0:
        return f"{number_format(mib // 1024, force_grouping=True)} GiB"
    if mib < 10 * 1024:
        return f"{number_format(mib, force_grouping=True)} MiB"
    return f"{number_format(mib // 1024, force_grouping=True)}.{mib % 1024 * 10 // 1024} GiB"


def byte_size(size: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size // factor}.{size % factor * 10 // factor} {unit}"
    return f"{size} B"


def cards(milli: int) -> str:
    """Card equivalents: "1 card", "0.125 cards"."""
    return ngettext("%(number)s card", "%(number)s cards", 1 if milli == 1000 else 2) % {"number": thousandths(milli)}


def cores(milli: int) -> str:
    number = {"number": thousandths(milli)}
    return ngettext("%(number)s CPU core", "%(number)s CPU cores", 1 if milli == 1000 else 2) % number


def duration(seconds: int) -> str:
    """The two largest units: "2 d 4 h", "1 h 30 min", "45 s"."""
    units = ((_("d"), 86_400), (_("h"), 3600), (_("min"), 60), (_("s"), 1))
    parts = []
    for unit, size in units:
        if seconds >= size:
            parts.append(f"{seconds // size} {unit}")
            seconds %= size
        elif parts:
            break
    return " ".join(parts[:2]) or f"0 {_('s')}"


def gpu_request(
    *,
    gpus: int,
    gpu_slices: int | None = None,
    gpu_memory_mib: int | None = None,
    gpu_compute_milli: int | None = None,
    gpu_model: str | None = None,
    tasks: int = 1,
) -> str:
    """What a workload asks of cards: "2 cards", "1 slice", "4 GiB of 2 cards", "no GPU"."""
    if not gpus:
        text = _("no GPU")
    else:
        share = _share(gpu_slices, gpu_memory_mib, gpu_compute_milli)
        whole = cards(gpus * 1000)
        text = share if share and gpus == 1 else _("%(share)s of %(cards)s") % {"share": share, "cards": whole}
        text = text if share else whole
    if gpu_model:
        text += f" ({gpu_model})"
    return f"{tasks} x {text}" if tasks > 1 else text


def _share(slices: int | None, memory_mib: int | None, compute_milli: int | None) -> str:
    parts = []
    if slices is not None:
        parts.append(ngettext("%(number)s slice", "%(number)s slices", slices) % {"number": slices})
    if memory_mib is not None:
        parts.append(_("%(size)s of GPU memory") % {"size": memory(memory_mib)})
    if compute_milli is not None:
        parts.append(_("%(percent)s %% compute") % {"percent": thousandths(compute_milli * 100)})
    return ", ".join(parts)
