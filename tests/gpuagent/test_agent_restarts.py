"""What survives when the agent, the server or the way between them goes away. Tasks are plain processes."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentapi.v1 import ContainerPhase, TaskSpec
from gpuagent.runtime.processes import find_by_environment
from tests.gpuagent.agent_rig import ROOT, AgentRig
from tests.gpuagent.control_plane import JOIN_TOKEN
from tests.gpuagent.specs import a_spec
from tests.gpuagent.waiting import wait_until

_LOOP = "i=0; while [ ! -e stop ]; do i=$((i+1)); echo line $i; sleep 0.01; done; echo end; exit %d"
_pause = threading.Event()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[AgentRig]:
    rig = AgentRig(tmp_path)
    rig.start()
    yield rig
    rig.close()


def _pids(spec: TaskSpec) -> list[int]:
    return sorted(find_by_environment(f"AISTATION_TASK_ID={spec.task_id}\0".encode()))


def _main_pid(node: AgentRig, spec: TaskSpec) -> int:
    pid: int = json.loads((node.folder(spec.task_id) / "run.json").read_bytes())["pid"]
    return pid


def _tell_to_end(node: AgentRig, spec: TaskSpec) -> None:
    (node.folder(spec.task_id) / "work" / "stop").touch()


def _run_loops(node: AgentRig) -> list[TaskSpec]:
    """Three tasks that log without pause and end, when told to, with 0, 3 and 4."""
    specs = [a_spec("sh", "-c", _LOOP % code) for code in (0, 3, 4)]
    node.plane.want(*specs)
    for spec in specs:
        wait_until(lambda spec=spec: len(node.plane.log(spec.task_id)) > 50)  # type: ignore[misc]
    return specs


def _assert_log_without_gap(node: AgentRig, spec: TaskSpec) -> None:
    lines = node.plane.log(spec.task_id).decode().splitlines()
    assert lines == [f"line {number}" for number in range(1, len(lines))] + ["end"]


@pytest.mark.parametrize("way", ["kill", "terminate"])
def test_an_agents_end_touches_no_task_and_its_successor_knows_them_all(node: AgentRig, way: str) -> None:
    """B020, B045: killed or stopped in order; one of the tasks ends meanwhile."""
    running, ending, other = specs = _run_loops(node)
    pids = {spec.task_id: _main_pid(node, spec) for spec in specs}
    getattr(node, way)()
    assert not any(node.plane.is_ended(spec.task_id) for spec in specs)
    _tell_to_end(node, ending)
    wait_until(lambda: not _pids(ending))
    node.start()
    node.wait_for_end(ending.task_id)
    assert {spec.task_id: _main_pid(node, spec) for spec in (running, other)} == {
        spec.task_id: pids[spec.task_id] for spec in (running, other)
    }
    for spec in (running, other):
        _tell_to_end(node, spec)
    node.wait_for_end(*[spec.task_id for spec in specs])
    assert [node.plane.last(spec.task_id).exit_code for spec in specs] == [0, 3, 4]  # type: ignore[union-attr]
    for spec in specs:
        _assert_log_without_gap(node, spec)
    assert node.plane.log_chunks_ahead == 0


def test_the_server_may_be_away(node: AgentRig) -> None:
    """B028: work goes on, what ends meanwhile is told afterwards, the logs have no gap."""
    specs = _run_loops(node)
    node.plane.go_away()
    _pause.wait(2)
    for spec in specs[:2]:
        _tell_to_end(node, spec)
    wait_until(lambda: not _pids(specs[0]) and not _pids(specs[1]))
    assert _pids(specs[2])
    node.plane.come_back()
    node.wait_for_end(specs[0].task_id, specs[1].task_id, timeout_s=30)
    _tell_to_end(node, specs[2])
    node.wait_for_end(specs[2].task_id)
    assert [node.plane.last(spec.task_id).exit_code for spec in specs] == [0, 3, 4]  # type: ignore[union-attr]
    for spec in specs:
        _assert_log_without_gap(node, spec)


def test_the_agent_may_restart_while_the_server_is_away(node: AgentRig) -> None:
    """B020, B024: it goes on from what it stored, and a stop that was ordered meanwhile is done on return."""
    specs = _run_loops(node)
    node.kill()
    node.plane.go_away()
    node.start(is_awaited=False)
    _tell_to_end(node, specs[0])
    wait_until(lambda: not _pids(specs[0]))
    node.plane.stop(specs[1].task_id)
    assert _pids(specs[1])
    node.plane.come_back()
    node.wait_for_end(specs[0].task_id, specs[1].task_id)
    assert node.plane.phase(specs[0].task_id) == ContainerPhase.EXITED
    assert node.plane.phase(specs[1].task_id) == ContainerPhase.GONE
    assert not _pids(specs[1])
    _assert_log_without_gap(node, specs[0])


@pytest.mark.parametrize(
    "answer",
    [(500, b"boom"), (200, b"<html>a proxy</html>"), (503, b""), (200, b'{"interval_s": "soon"}'), (404, b"{}")],
)
def test_a_server_that_answers_nonsense_is_outlived(node: AgentRig, answer: tuple[int, bytes]) -> None:
    """B028."""
    spec = a_spec("sleep", "600")
    node.plane.want(spec)
    node.wait_for_phase(spec.task_id, ContainerPhase.RUNNING)
    node.plane.failing = lambda _: answer
    _pause.wait(1.5)
    beats = len(node.plane.heartbeats)
    node.plane.failing = lambda _: None
    wait_until(lambda: len(node.plane.heartbeats) > beats, timeout_s=15)
    assert _pids(spec)


def test_a_copy_of_a_node_is_refused_and_touches_nothing(node: AgentRig, tmp_path: Path) -> None:
    """B027: the copy says why, starts none of the tasks and leaves the first one's alone."""
    running = a_spec("sleep", "600")
    node.plane.want(running)
    node.wait_for_phase(running.task_id, ContainerPhase.RUNNING)
    (tmp_path / "copy").mkdir()
    shutil.copytree(node.state / "tasks", tmp_path / "copy" / "state" / "tasks")
    shutil.copy(node.state / "credential.json", tmp_path / "copy" / "state")
    copy = AgentRig(tmp_path / "copy", node.plane)
    copy.start(is_awaited=False)
    wait_until(lambda: "another agent runs as this node" in copy.said())
    later = a_spec("sleep", "600")
    node.plane.want(later)
    node.wait_for_phase(later.task_id, ContainerPhase.RUNNING)
    assert [len(_pids(spec)) for spec in (running, later)] == [1, 1]
    assert not copy.folder(later.task_id).exists()
    copy.terminate()
    assert [len(_pids(spec)) for spec in (running, later)] == [1, 1]


def test_two_agents_never_share_a_state_directory(node: AgentRig) -> None:
    done = subprocess.run(node.command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert b"another agent runs on" in done.stderr


def test_a_wrong_join_token_is_said_and_a_right_one_is_taken_without_a_restart(tmp_path: Path) -> None:
    rig = AgentRig(tmp_path)
    rig.token_file.write_text("wrong", encoding="ascii")
    rig.start(is_awaited=False)
    wait_until(lambda: "refuses this node" in rig.said())
    rig.token_file.write_text(JOIN_TOKEN, encoding="ascii")
    wait_until(lambda: rig.plane.heartbeats, "the first heartbeat")
    assert (rig.state / "credential.json").stat().st_mode & 0o777 == 0o600
    rig.close()


def test_a_state_directory_of_a_newer_agent_is_left_alone(tmp_path: Path) -> None:
    rig = AgentRig(tmp_path)
    rig.state.mkdir()
    (rig.state / "version").write_text("99", encoding="ascii")
    done = subprocess.run(rig.command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert b"update the agent" in done.stderr
    rig.plane.go_away()
