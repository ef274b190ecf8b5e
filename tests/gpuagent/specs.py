"""Orders for tests, with everything that a test does not care about filled in."""

import itertools
import uuid
from typing import Any

from agentapi.v1 import TaskSpec

BUSYBOX = "aistation-test/busybox:1"

_numbers = itertools.count(1)
_run = uuid.uuid4().hex[:8]  # processes of other runs are not taken for this one's


def a_spec(*command: str, **changes: Any) -> TaskSpec:
    """A task with a fresh id that runs ``command``."""
    number = next(_numbers)
    fields: dict[str, Any] = {
        "task_id": f"task-{_run}-{number}",
        "nonce": f"nonce-{number}",
        "workload_id": f"workload-{number}",
        "workload_name": "a workload",
        "kind": "job",
        "attempt": 1,
        "image": "test",
        "reference": BUSYBOX,
        "command": command,
        "cpu_milli": 1000,
        "memory_mib": 128,
        "grace_s": 10,
    }
    return TaskSpec(**{**fields, **changes})
