"""A real agent as a process of its own, with a control plane to talk to."""

import signal
import subprocess
import sys
from pathlib import Path

from agentapi.v1 import ContainerPhase
from tests.gpuagent.control_plane import JOIN_TOKEN, ControlPlane
from tests.gpuagent.waiting import wait_until

ROOT = Path(__file__).parents[2]


class AgentRig:
    """One node: its state directory, its token, and the agent while it runs."""

    def __init__(self, directory: Path, plane: ControlPlane | None = None, *, runtime: str = "process") -> None:
        self.plane = plane or ControlPlane()
        self.directory = directory
        self.state = directory / "state"
        self.data = directory / "data"
        self.log = directory / "agent.log"
        self.token_file = directory / "token"
        self.token_file.write_text(JOIN_TOKEN + "\n", encoding="ascii")
        self._runtime = runtime
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "gpuagent", "--server", self.plane.url, "--name", "node-1"),
            *("--token-file", str(self.token_file), "--state-dir", str(self.state), "--data-root", str(self.data)),
            *("--runtime", self._runtime, "--gpus", "simulated:2xV100-32GB"),
        ]

    def start(self, *, is_awaited: bool = True) -> None:
        beats = len(self.plane.heartbeats)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, cwd=ROOT, stderr=log, stdout=log, start_new_session=True)
        if is_awaited:
            wait_until(lambda: len(self.plane.heartbeats) > beats, "the first heartbeat")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        self._end(signal.SIGTERM)

    def close(self) -> None:
        """Let every task end in order, then the agent and the server."""
        if self.process is None:
            self.start()
        self.plane.failing = lambda _: None
        self.plane.stop(*self.plane.tasks)
        wait_until(lambda: not self.plane.tasks, "the end of all tasks")
        self.terminate()
        self.plane.go_away()

    def wait_for_phase(self, task_id: str, phase: ContainerPhase, timeout_s: float = 30.0) -> None:
        wait_until(lambda: self.plane.phase(task_id) == phase, f"{task_id} {phase}", timeout_s)

    def wait_for_end(self, *task_ids: str, timeout_s: float = 60.0) -> None:
        wait_until(lambda: all(map(self.plane.is_ended, task_ids)), "the ends of tasks", timeout_s)

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def folder(self, task_id: str) -> Path:
        """Where the process runtime keeps a task."""
        return self.state / "process" / "containers" / task_id

    def _end(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(20)
        self.process = None
