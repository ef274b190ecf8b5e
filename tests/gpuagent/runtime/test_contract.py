"""What every runtime promises."""

import hashlib
import random
import threading

import pytest

from agentapi.v1 import ErrorCode
from gpuagent.reconcile import ContainerState
from gpuagent.runtime.base import TaskError
from tests.gpuagent.runtime.rig import Rig
from tests.gpuagent.waiting import wait_until

_AWKWARD = {
    "NEWLINE": "one\ntwo\r\nthree",
    "QUOTES": "'\"`",
    "SHELL": "$(id) ${HOME} $HOME ; rm -rf / & | > <",
    "EQUALS": "a=b=c",
    "DASH": "-rf",
    "EMOJI": "🚀 中文",
    "EMPTY": "",
    "LONG": "x" * 100_000,
}


def test_the_exit_code_and_both_streams_are_exact(rig: Rig) -> None:
    container, out, err = rig.run("sh", "-c", "printf 'to out\\n'; printf 'to err' >&2; exit 7")
    assert (container.exit_code, out, err) == (7, b"to out\n", b"to err")
    assert container.error is None
    assert not container.oom_killed
    assert container.started_at is not None
    assert container.finished_at is not None
    assert container.started_at <= container.finished_at


def test_an_end_by_a_signal_is_128_and_its_number(rig: Rig) -> None:
    container, _, _ = rig.run("sh", "-c", "kill -SEGV $$")
    assert container.exit_code == 139


def test_the_end_is_told_at_once(rig: Rig) -> None:
    spec = rig.spec("sh", "-c", "while [ ! -e go ]; do sleep 0.01; done")
    container = rig.start(spec)
    rig.changes.clear()
    (rig.folder / "go").touch()
    wait_until(lambda: container.container_id in [changed for _, changed in rig.changes], timeout_s=10)
    ended = rig.wait_for_end(container, timeout_s=2)
    assert ended.exit_code == 0


def test_environment_and_arguments_arrive_byte_for_byte(rig: Rig) -> None:
    """B073: nothing of the user's is ever evaluated."""
    names = sorted(_AWKWARD)
    script = "; ".join(f'printf "%s\\0" "${name}"' for name in names) + '; printf "%s\\0" "$@"'
    arguments = [*_AWKWARD.values()]
    _, out, _ = rig.run("sh", "-c", script, "sh", *arguments, env=_AWKWARD)
    assert out == b"".join(_AWKWARD[name].encode() + b"\0" for name in names) + b"".join(
        argument.encode() + b"\0" for argument in arguments
    )


def test_the_user_cannot_overrule_the_platform(rig: Rig) -> None:
    """B059: the platform's values for devices and identity win."""
    claims = {"NVIDIA_VISIBLE_DEVICES": "all", "AISTATION_TASK_ID": "other", "NVIDIA_DRIVER_CAPABILITIES": "all"}
    spec = rig.spec(
        "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES $AISTATION_TASK_ID $NVIDIA_DRIVER_CAPABILITIES", env=claims
    )
    rig.wait_for_end(rig.start(spec))
    assert rig.output(spec)[0].decode() == f"void {spec.task_id} compute,utility\n"


def test_a_command_that_is_not_there_is_told_from_one_that_failed(rig: Rig) -> None:
    """B063: and without quoting what may be secret. In a container it is the init that does not find it."""
    spec = rig.spec("no-such-command", "--secret", env={"CANARY": "canary-value"})
    if rig.is_docker:
        assert rig.wait_for_end(rig.start(spec)).exit_code == 127
        assert b"exec no-such-command failed: No such file or directory" in rig.output(spec)[1]
        return
    with pytest.raises(TaskError) as caught:
        rig.start(spec)
    assert caught.value.code == ErrorCode.IMAGE_UNFIT
    assert "--secret" not in str(caught.value)
    assert rig.find(spec) is None


def test_starting_again_finds_the_same_container(rig: Rig) -> None:
    spec = rig.spec("sleep", "60")
    first = rig.start(spec)
    assert rig.runtime.start(rig.launch(spec)).container_id == first.container_id
    assert len([c for c in rig.runtime.list() if c.task_id == spec.task_id]) == 1


def test_stopping_asks_first_and_kills_later(rig: Rig) -> None:
    polite = rig.spec("sh", "-c", "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    stubborn = rig.spec("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    for spec in (polite, stubborn):
        rig.start(spec)
        wait_until(lambda spec=spec: rig.output(spec)[0] == b"ready\n")  # type: ignore[misc]
    for spec, grace_s in ((polite, 10), (stubborn, 1)):
        container = rig.find(spec)
        assert container is not None
        rig.runtime.stop(container.container_id, grace_s)
        ended = rig.wait_for_end(container, timeout_s=1)
        assert ended.exit_code == (3 if spec is polite else 137)
    assert rig.output(polite)[0] == b"ready\nbye\n"


def test_a_task_finds_the_notice_of_its_end(rig: Rig) -> None:
    """A job that is to be preempted reads why and how long it has, and cannot write there."""
    spec = rig.spec("sh", "-c", 'cat "$AISTATION_STOP_FILE"')
    (rig.notice(spec) / "stop").write_text('{"reason": "reclaimed"}')
    container = rig.wait_for_end(rig.start(spec))
    assert (container.exit_code, rig.output(spec)[0]) == (0, b'{"reason": "reclaimed"}')


def test_what_the_command_leaves_behind_ends_with_it(rig: Rig) -> None:
    """B025, B026: daemons do not outlive their task, orphans do not pile up as zombies."""
    script = "for i in $(seq 200); do (sleep 0 &) ; done; (setsid sleep 300 >/dev/null 2>&1 &) ; echo done"
    container, out, _ = rig.run("sh", "-c", script)
    assert (container.exit_code, out) == (0, b"done\n")


def test_a_paused_container_is_seen_as_paused_and_can_be_stopped(rig: Rig) -> None:
    """B021."""
    spec = rig.spec("sh", "-c", "kill -STOP $$; sleep 60") if not rig.is_docker else rig.spec("sleep", "60")
    container = rig.start(spec)
    if rig.is_docker:
        rig.pause(container.container_id)
    wait_until(lambda: (found := rig.find(spec)) is not None and found.state == ContainerState.PAUSED)
    rig.runtime.stop(container.container_id, 5)
    assert rig.wait_for_end(container, timeout_s=5).exit_code in {137, 143}


def test_removing_ends_and_deletes_and_may_be_repeated(rig: Rig) -> None:
    spec = rig.spec("sleep", "60")
    container = rig.start(spec)
    rig.runtime.remove(container.container_id)
    assert rig.find(spec) is None
    assert rig.runtime.inspect(container.container_id) is None
    rig.runtime.remove(container.container_id)


def test_a_new_agent_finds_what_runs_and_what_ended_meanwhile(rig: Rig) -> None:
    """B020, B045: the agent's end is not the task's."""
    running = rig.spec("sh", "-c", "echo before; while [ ! -e go ]; do sleep 0.02; done; echo after; exit 5")
    ending = rig.spec("sh", "-c", "echo first; while [ ! -e end ]; do sleep 0.02; done; echo second; exit 3")
    containers = {spec.task_id: rig.start(spec) for spec in (running, ending)}
    wait_until(lambda: rig.output(running)[0] and rig.output(ending)[0])
    rig.runtime.close()
    (rig.folder / "end").touch()
    threading.Event().wait(0.3)  # the end falls into the time without an agent
    rig.open()
    for spec in (running, ending):
        found = rig.adopt(spec)
        assert found.nonce == spec.nonce
        assert found.container_id == containers[spec.task_id].container_id
        assert found.started_at == containers[spec.task_id].started_at
    (rig.folder / "go").touch()
    assert rig.wait_for_end(containers[ending.task_id]).exit_code == 3
    assert rig.wait_for_end(containers[running.task_id]).exit_code == 5
    assert rig.output(ending)[0] == b"first\nsecond\n"
    assert rig.output(running)[0] == b"before\nafter\n"


def test_output_without_a_line_end_is_seen_while_the_task_runs(rig: Rig) -> None:
    """B039."""
    spec = rig.spec("sh", "-c", "printf '\\r 10%%'; while [ ! -e go ]; do sleep 0.02; done; printf '\\r 20%%'")
    container = rig.start(spec)
    wait_until(lambda: rig.output(spec)[0] == b"\r 10%", timeout_s=5)
    (rig.folder / "go").touch()
    rig.wait_for_end(container)
    assert rig.output(spec)[0] == b"\r 10%\r 20%"


def _payloads() -> dict[str, bytes]:
    rnd = random.Random(7)
    return {
        "one line of 1 MB in 3-byte characters": "中".encode() * 350_000 + b"\n",
        "2,000 lines of 20 KiB": (b"y" * 20_479 + b"\n") * 2_000,
        "progress without line ends": b"".join(b"\r%3d%%" % (i % 100) for i in range(200_000)),
        "random bytes": rnd.randbytes(3_000_000),
        "no final line end": b"a\nb\nlast",
        "only line ends": b"\n" * 10_000,
        "NUL bytes and an empty line": b"\0\0\n\n\0",
    }


@pytest.mark.parametrize("name", _payloads())
def test_every_byte_of_the_log_arrives(rig: Rig, name: str) -> None:
    """B038, B039, B040: whatever the bytes are."""
    payload = _payloads()[name]
    (rig.folder / "payload").write_bytes(payload)
    _, out, err = rig.run("sh", "-c", "cat payload; cat payload >&2")
    assert _digest(out) == _digest(payload)
    assert _digest(err) == _digest(payload)


@pytest.mark.parametrize("name", _payloads())
def test_every_byte_written_while_no_agent_ran_arrives(rig: Rig, name: str) -> None:
    """B020, B038."""
    payload = _payloads()[name]
    (rig.folder / "payload").write_bytes(payload)
    spec = rig.spec("sh", "-c", "printf 'head\\n'; while [ ! -e go ]; do sleep 0.02; done; cat payload; touch done")
    container = rig.start(spec)
    wait_until(lambda: rig.output(spec)[0] == b"head\n")
    rig.runtime.close()
    (rig.folder / "go").touch()
    wait_until(lambda: (rig.folder / "done").exists())
    rig.open()
    rig.adopt(spec)
    rig.wait_for_end(container)
    out = rig.output(spec)[0]
    if rig.is_docker and name == "progress without line ends":
        out = out.removesuffix(b"\n")  # whether a long last line had an end, some engines' logs do not tell
    assert _digest(out) == _digest(b"head\n" + payload)


def test_a_log_ends_at_its_limit_and_the_task_goes_on(rig: Rig) -> None:
    """B046."""
    (rig.folder / "payload").write_bytes(b"z" * 3_000_000)
    spec = rig.spec("sh", "-c", "cat payload; touch done; exit 4", log_limit_bytes=1_000_000)
    assert rig.wait_for_end(rig.start(spec)).exit_code == 4
    assert (rig.folder / "done").exists()
    assert rig.output(spec)[0] == b"z" * 1_000_000
    assert rig.is_log_truncated(spec)


def test_a_port_is_reachable_on_the_nodes_address_alone(rig: Rig) -> None:
    container = rig.start(rig.spec("sleep", "60", port=8888))
    assert container.host_port is not None
    assert 1024 <= container.host_port < 65536


def _digest(data: bytes) -> tuple[int, str]:
    return len(data), hashlib.sha256(data).hexdigest()
