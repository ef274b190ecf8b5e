"""Real cards, read by a process of their own (nvml_reader.py) that is replaced when it hangs or breaks."""

import ctypes
import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from gpuagent.devices.base import DeviceReading

log = logging.getLogger(__name__)

_ANSWER_TIMEOUT_S: Final = 10.0  # the first answer of a machine without persistence mode takes some seconds
_LONGEST_ANSWER: Final = 1024 * 1024


def has_nvml() -> bool:
    """True when NVIDIA's library is installed; whether it works only a reading tells."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


class NvmlDevices:
    """A DeviceProvider over NVML. ``environment`` adds to the reader's."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, answer_timeout_s: float = _ANSWER_TIMEOUT_S
    ) -> None:
        self._environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **(environment or {})}
        self._answer_timeout_s = answer_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._unkillable: list[subprocess.Popen[bytes]] = []

    def read(self) -> DeviceReading:
        self._unkillable = [process for process in self._unkillable if process.poll() is None]
        if self._unkillable:  # stuck in the kernel: another one would only join it
            return DeviceReading(error="NVML hangs in the driver")
        answer = self._ask()
        try:
            reading = DeviceReading.model_validate_json(answer)
        except ValidationError:
            self.close()
            return DeviceReading(error="NVML did not answer" if not answer else "NVML gave no usable answer")
        if reading.error:
            self.close()  # a fresh process may do better, e.g. after the driver was replaced
        return reading

    def close(self) -> None:
        """End the reader; the next reading starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            self._unkillable.append(process)

    def _ask(self) -> bytes:
        """One answer; what there is of it when it does not come in time."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = self._start()
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        except OSError:
            return b""
        return self._read_line(self._process.stdout.fileno())

    def _read_line(self, fd: int) -> bytes:
        deadline = time.monotonic() + self._answer_timeout_s
        answer = b""
        while not answer.endswith(b"\n") and len(answer) < _LONGEST_ANSWER:
            ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(fd, 64 * 1024) if ready else b""
            if not piece:
                return b""
            answer += piece
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "gpuagent.devices.nvml_reader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
        )
