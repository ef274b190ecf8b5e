"""Reads all cards through NVML: one JSON line for each line on standard input. Runs as a process of its own.

NVML may hang, crash, or stay broken for the process that loaded it when the driver is replaced. Here that costs
this process only; nvml.py starts another. The lines are DeviceReading of base.py, which is not imported here: this
shall start quickly.
"""

import json
import sys
from collections.abc import Callable
from typing import Any, Final

import pynvml

_MIB: Final = 1024 * 1024
_UNHEALTHY: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})


def main() -> None:
    """Answer each line until standard input ends. An error of NVML as a whole ends the process after its answer."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        sys.stdin.readline()
        _answer({"error": f"NVML: {error}"})
        return
    for _ in sys.stdin:
        reading = read_all()
        _answer(reading)
        if reading["error"]:
            return


def read_all() -> dict[str, Any]:
    """All cards in the order of their PCI addresses. A card that cannot even be named is only counted."""
    try:
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return {"error": f"NVML: {error}"}
    found: list[tuple[str, dict[str, Any]]] = []
    nameless: list[str] = []
    for index in range(count):
        try:
            found.append(_read(index))
        except (pynvml.NVMLError, ValueError, UnicodeError) as error:
            nameless.append(f"card {index}: {error}")
    found.sort(key=lambda pair: (pair[0], pair[1]["uuid"]))
    return {"devices": [device for _, device in found], "error": "" if found else "; ".join(nameless)}


def _read(index: int) -> tuple[str, dict[str, Any]]:
    """One card and its PCI address. Raises when it has no UUID: it could not be told from others."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
    if not uuid:
        raise ValueError("no UUID")
    ask = _Questions()
    memory = ask("memory", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    use = ask("utilisation", lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    pci = ask("PCI address", lambda: _text(pynvml.nvmlDeviceGetPciInfo(handle).busId))
    temperature = ask("temperature", lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
    power = ask("power", lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
    model = _text(ask("name", lambda: pynvml.nvmlDeviceGetName(handle))) or "unknown"
    device = {
        "uuid": uuid,
        "model": model,
        "memory_mib": _mebibytes(getattr(memory, "total", None)) or None,
        "memory_used_mib": _mebibytes(getattr(memory, "used", None)),
        "utilisation_percent": _integer(getattr(use, "gpu", None)),
        "temperature_c": _integer(temperature),
        "power_mw": _integer(power),
        "healthy": not ask.is_unhealthy,
        "reason": "; ".join(ask.reasons),
    }
    return str(pci or ""), device


class _Questions:
    """Asks NVML one thing after another and remembers what it could not say."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.is_unhealthy = False

    def __call__(self, what: str, question: Callable[[], object]) -> object:
        """The answer, or None with a reason."""
        try:
            answer = question()
        except (pynvml.NVMLError, UnicodeError) as error:
            self.is_unhealthy |= getattr(error, "value", None) in _UNHEALTHY
            self.reasons.append(f"{what}: {error}")
            return None
        if answer is None:
            self.reasons.append(f"{what}: no value")
        return answer


def _integer(value: object) -> int | None:
    """None for whatever is no plain count."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


def _mebibytes(value: object) -> int | None:
    number = _integer(value)
    return None if number is None else number // _MIB


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def _answer(reading: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reading) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
