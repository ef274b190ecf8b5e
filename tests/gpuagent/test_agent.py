"""What one agent does for its server, seen from the server's side. Tasks are plain processes."""

import itertools
import json
import os
import random
import signal
import threading
from collections.abc import Iterator

import pytest

from agentapi.v1 import ContainerPhase, DeviceShare, ErrorCode, Mount, Stream
from gpuagent.runtime.processes import find_by_environment
from tests.gpuagent.agent_rig import AgentRig
from tests.gpuagent.specs import a_spec
from tests.gpuagent.waiting import wait_until


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentRig]:
    """One agent for all tests that leave it as it was."""
    rig = AgentRig(tmp_path_factory.mktemp("node"))
    rig.start()
    yield rig
    rig.close()


def _is_running(task_id: str) -> bool:
    return bool(find_by_environment(f"AISTATION_TASK_ID={task_id}\0".encode()))


def test_a_job_runs_reports_and_is_cleared_away(node: AgentRig) -> None:
    spec = a_spec("sh", "-c", "echo out; echo err >&2; exit 3")
    node.plane.want(spec)
    node.wait_for_end(spec.task_id)
    report = node.plane.last(spec.task_id)
    assert report is not None
    assert (report.phase, report.exit_code, report.error) == (ContainerPhase.EXITED, 3, None)
    assert (report.log_bytes, report.log_truncated) == (8, False)
    assert report.started_at is not None
    assert report.finished_at is not None
    assert node.plane.stream(spec.task_id, Stream.STDOUT) == b"out\n"
    assert node.plane.stream(spec.task_id, Stream.STDERR) == b"err\n"
    wait_until(lambda: not node.folder(spec.task_id).exists(), "clearing away")
    wait_until(lambda: not (node.state / "tasks" / spec.task_id).exists(), "clearing away")


def test_the_log_is_at_the_server_before_the_end_is_told(node: AgentRig) -> None:
    """B041."""
    spec = a_spec("sh", "-c", "head -c 2000000 /dev/zero; exit 1")
    node.plane.want(spec)
    node.wait_for_end(spec.task_id)
    assert len(node.plane.log(spec.task_id)) == 2_000_000


def test_a_task_is_told_why_it_is_to_end_before_it_is_asked_to(node: AgentRig) -> None:
    """What a preempted job needs in order to save: the reason and its time, at SIGTERM."""
    script = """trap 'cat "$AISTATION_STOP_FILE"; exit 7' TERM; echo ready; while :; do sleep 0.05; done"""
    spec = a_spec("sh", "-c", script)
    node.plane.want(spec)
    wait_until(lambda: node.plane.stream(spec.task_id, Stream.STDOUT) == b"ready\n")
    node.plane.want(spec.model_copy(update={"stop": True, "stop_reason": "preempted", "grace_s": 20}))
    node.wait_for_end(spec.task_id)
    told = node.plane.stream(spec.task_id, Stream.STDOUT).removeprefix(b"ready\n")
    assert json.loads(told) == {"reason": "preempted", "grace_s": 20}


def test_the_heartbeat_tells_what_the_node_has(node: AgentRig) -> None:
    beat = node.plane.heartbeats[-1][1]
    assert [device.memory_mib for device in beat.inventory.devices] == [32_510, 32_510]
    assert all(device.simulated for device in beat.inventory.devices)
    assert (beat.inventory.cpu_milli, beat.inventory.memory_mib) == (48_000, 384 * 1024)
    assert beat.inventory.runtime == "process"
    assert beat.inventory.runtime_error == ""
    assert beat.inventory.simulated


def test_stopping_a_running_task_reports_it_gone(node: AgentRig) -> None:
    spec = a_spec("sleep", "600")
    node.plane.want(spec)
    node.wait_for_phase(spec.task_id, ContainerPhase.RUNNING)
    node.plane.stop(spec.task_id)
    node.wait_for_end(spec.task_id)
    report = node.plane.last(spec.task_id)
    assert report is not None
    assert (report.phase, report.exit_code) == (ContainerPhase.GONE, 143)
    assert not _is_running(spec.task_id)


def test_a_cancel_at_any_moment_leaves_nothing_running(node: AgentRig) -> None:
    """B018."""
    rnd = random.Random(3)
    specs = [a_spec("sleep", "600") for _ in range(40)]
    pause = threading.Event()
    for spec in specs:
        node.plane.want(spec)
        pause.wait(rnd.choice([0, 0, 0.005, 0.02, 0.05, 0.1]))
        node.plane.stop(spec.task_id)
    node.wait_for_end(*[spec.task_id for spec in specs])
    assert not any(_is_running(spec.task_id) for spec in specs)
    wait_until(lambda: not any(node.folder(spec.task_id).exists() for spec in specs), "clearing away")


def test_a_card_that_the_node_lacks_fails_the_task(node: AgentRig) -> None:
    share = DeviceShare(uuid="GPU-elsewhere", memory_mib=4000, compute_milli=125)
    spec = a_spec("true", devices=(share,))
    node.plane.want(spec)
    node.wait_for_end(spec.task_id)
    report = node.plane.last(spec.task_id)
    assert report is not None
    assert (report.phase, report.error) == (ContainerPhase.FAILED, ErrorCode.DEVICE_MISSING)


def test_a_task_sees_its_simulated_cards_by_uuid(node: AgentRig) -> None:
    card = node.plane.heartbeats[-1][1].inventory.devices[1]
    share = DeviceShare(uuid=card.uuid, memory_mib=4000, compute_milli=125)
    spec = a_spec(
        "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $AISTATION_SIMULATED_GPUS $CUDA_DEVICE_ORDER", devices=(share,)
    )
    node.plane.want(spec)
    node.wait_for_end(spec.task_id)
    assert node.plane.log(spec.task_id).decode() == f"{card.uuid} {card.uuid} PCI_BUS_ID\n"


def test_a_folder_is_the_working_directory_and_stays(node: AgentRig) -> None:
    mount = Mount(source="home/alice", target="/workspace")
    for command in ("echo kept > file", "cat file; pwd; echo $HOME"):
        spec = a_spec("sh", "-c", command, mounts=(mount,))
        node.plane.want(spec)
        node.wait_for_end(spec.task_id)
    home = node.data / "home" / "alice"
    assert node.plane.log(spec.task_id).decode() == f"kept\n{home}\n{home}\n"


def test_a_link_in_a_folder_is_never_followed(node: AgentRig) -> None:
    """B065."""
    (node.data / "home" / "mallory").mkdir(parents=True)
    (node.data / "home" / "mallory" / "x").symlink_to("/etc")
    spec = a_spec("cat", "passwd", mounts=(Mount(source="home/mallory/x", target="/workspace"),))
    node.plane.want(spec)
    node.wait_for_end(spec.task_id)
    report = node.plane.last(spec.task_id)
    assert report is not None
    assert (report.phase, report.error) == (ContainerPhase.FAILED, ErrorCode.MOUNT)


def test_secrets_stay_out_of_reports_and_the_agents_log(node: AgentRig) -> None:
    """B063: also when the start fails."""
    specs = [
        a_spec("no-such-command", "canary-argument", env={"TOKEN": "canary-value"}),
        a_spec("sh", "-c", "exit 1", env={"TOKEN": "canary-value"}),
        a_spec("true", "canary-argument" * 20_000),
    ]
    node.plane.want(*specs)
    node.wait_for_end(*[spec.task_id for spec in specs])
    told = "".join(str(node.plane.reports[spec.task_id]) for spec in specs)
    assert "canary" not in told
    assert "canary" not in node.said()


def test_output_flows_while_the_task_runs(node: AgentRig) -> None:
    """B039: within half a second."""
    spec = a_spec("sh", "-c", "printf '\\r10%%'; sleep 600")
    node.plane.want(spec)
    node.wait_for_phase(spec.task_id, ContainerPhase.RUNNING)
    wait_until(lambda: node.plane.log(spec.task_id) == b"\r10%", timeout_s=5)
    node.plane.stop(spec.task_id)
    node.wait_for_end(spec.task_id)


def test_a_flood_of_output_holds_up_neither_heartbeats_nor_other_logs(node: AgentRig) -> None:
    """B046."""
    flood = a_spec("sh", "-c", "yes flood | head -c 30000000; sleep 600", log_limit_bytes=10_000_000)
    quiet = a_spec("sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.2; done")
    node.plane.want(flood)
    node.wait_for_phase(flood.task_id, ContainerPhase.RUNNING)
    node.plane.want(quiet)
    node.wait_for_end(quiet.task_id)
    assert node.plane.log(quiet.task_id) == b"1\n2\n3\n4\n5\n"
    wait_until(lambda: len(node.plane.log(flood.task_id)) == 10_000_000)
    node.plane.stop(flood.task_id)
    node.wait_for_end(flood.task_id)
    report = node.plane.last(flood.task_id)
    assert report is not None
    assert (report.log_bytes, report.log_truncated) == (10_000_000, True)
    beats = [at for at, _ in node.plane.heartbeats]
    assert max(after - before for before, after in itertools.pairwise(beats)) < 5


def test_what_the_server_lost_of_a_log_is_sent_again(node: AgentRig) -> None:
    spec = a_spec("sh", "-c", "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two")
    node.plane.want(spec)
    wait_until(lambda: node.plane.log(spec.task_id) == b"one\n")
    with node.plane.lock:
        node.plane.logs[spec.task_id] = bytearray(b"o")
    (node.folder(spec.task_id) / "work" / "go").touch()
    node.wait_for_end(spec.task_id)
    assert node.plane.log(spec.task_id) == b"one\ntwo\n"


def test_an_end_is_told_until_the_server_has_settled_it(node: AgentRig) -> None:
    """A lost answer, a repeated one and one for a running task change nothing."""
    node.plane.is_settling = False
    spec = a_spec("true")
    node.plane.want(spec)
    wait_until(lambda: len(node.plane.reports.get(spec.task_id, [])) >= 3 and node.plane.is_ended(spec.task_id))
    ends = [report for _, report in node.plane.reports[spec.task_id] if report.phase == ContainerPhase.EXITED]
    wait_until(lambda: len([1 for _, r in node.plane.reports[spec.task_id] if r == ends[0]]) >= 2, timeout_s=15)
    assert node.folder(spec.task_id).exists()
    node.plane.is_settling = True
    wait_until(lambda: not node.folder(spec.task_id).exists(), timeout_s=15)
    assert len({report.model_dump_json() for report in ends}) == 1


def test_orders_may_come_with_the_answer_to_a_report(node: AgentRig) -> None:
    node.plane.is_answering_desired = True
    first, second = a_spec("sh", "-c", "sleep 0.3"), a_spec("true")
    node.plane.want(first)
    node.wait_for_phase(first.task_id, ContainerPhase.RUNNING)
    with node.plane.lock:
        node.plane.tasks[second.task_id] = second
        node.plane.version += 1  # without a wake
    node.wait_for_end(first.task_id, second.task_id)
    node.plane.is_answering_desired = False


def test_a_supervisor_that_is_killed_is_seen_and_its_process_ended(node: AgentRig) -> None:
    """B021."""
    spec = a_spec("sleep", "600")
    node.plane.want(spec)
    node.wait_for_phase(spec.task_id, ContainerPhase.RUNNING)
    run = json.loads((node.folder(spec.task_id) / "run.json").read_bytes())
    os.kill(run["supervisor"], signal.SIGKILL)
    node.wait_for_end(spec.task_id)
    report = node.plane.last(spec.task_id)
    assert report is not None
    assert (report.phase, report.error) == (ContainerPhase.EXITED, ErrorCode.CONTAINER_LOST)
    wait_until(lambda: not _is_running(spec.task_id))


def test_a_task_that_the_server_drops_without_a_word_is_reported_and_left_alone(node: AgentRig) -> None:
    """B072."""
    spec = a_spec("sleep", "600")
    node.plane.want(spec)
    node.wait_for_phase(spec.task_id, ContainerPhase.RUNNING)
    node.plane.foreign = []
    node.plane.abandon(spec.task_id)
    wait_until(lambda: [c.task_id for c in node.plane.foreign] == [spec.task_id], timeout_s=15)
    assert node.plane.foreign[0].nonce == spec.nonce
    assert _is_running(spec.task_id)
    node.plane.remove.add(spec.task_id)
    wait_until(lambda: not _is_running(spec.task_id), timeout_s=15)
    wait_until(lambda: not node.folder(spec.task_id).exists())


def test_a_container_with_another_nonce_is_not_adopted(node: AgentRig) -> None:
    """B072: it is reported and neither billed nor deleted."""
    spec = a_spec("true")
    folder = node.folder(spec.task_id + "-copy")
    folder.mkdir(mode=0o700)
    labels = {"task_id": spec.task_id, "nonce": "wrong", "workload_id": "w", "port": None}
    (folder / "labels.json").write_text(json.dumps(labels), encoding="ascii")
    node.plane.foreign = []
    node.plane.want(spec)
    node.wait_for_end(spec.task_id)
    wait_until(lambda: [c.nonce for c in node.plane.foreign] == ["wrong"], timeout_s=15)
    assert folder.exists()
    (folder / "labels.json").unlink()
    folder.rmdir()
