"""Asks the runtime how it is in a thread of its own, so that a hung engine holds up nothing else."""

import time
from typing import Final

from gpuagent.runtime.base import ContainerRuntime, Health
from gpuagent.threads import Loop

PERIOD_S: Final = 5.0
_HUNG_AFTER_S: Final = 20.0


class RuntimeProbe(Loop):
    """Keeps the last answer; a question that stays open too long is an answer as well."""

    def __init__(self, runtime: ContainerRuntime) -> None:
        super().__init__("runtime probe")
        self._runtime = runtime
        self._health = Health(error="the runtime has not answered yet")

    def step(self) -> float:
        self._health = self._runtime.health()
        return PERIOD_S

    def latest(self) -> Health:
        hung_s = self.stuck_s()
        if hung_s > _HUNG_AFTER_S:
            return Health(f"the runtime has not answered for {int(hung_s)} s", self._health.version)
        return self._health


def wait_until_answered(probe: RuntimeProbe, timeout_s: float) -> None:
    """Give the first answer a little time, so that the first heartbeat tells it."""
    deadline = time.monotonic() + timeout_s
    while probe.latest().error and time.monotonic() < deadline:
        time.sleep(0.01)
