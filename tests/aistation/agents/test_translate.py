"""Every word of the wire has a meaning here, and no number of it can break a row."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from agentapi.v1 import ContainerPhase, DeviceInfo, ErrorCode, Heartbeat, LogChunk, TaskReport
from aistation.agents import translate
from aistation.core.errors import InvalidInputError
from aistation.workloads.lifecycle import Phase
from aistation.workloads.selectors import DesiredTask
from tests.aistation.agents.speaker import a_heartbeat


@pytest.fixture
def heartbeat() -> dict[str, Any]:
    return a_heartbeat()


def a_report(**fields: Any) -> TaskReport:
    return TaskReport.model_validate({"task_id": "job-1-1-0", "nonce": "n", "phase": "running", **fields})


def test_every_phase_of_the_wire_has_a_meaning() -> None:
    assert set(translate.PHASES) == set(ContainerPhase)
    meant = [phase for phase in translate.PHASES.values() if phase is not None]
    assert set(meant) == set(Phase) - {Phase.PENDING}
    assert all(wire.value == phase.value for wire, phase in translate.PHASES.items() if phase is not None)


def test_a_phase_of_a_newer_agent_is_no_news() -> None:
    assert translate.task_facts(a_report(phase="hibernating")) is None


@pytest.mark.parametrize("error", [None, *ErrorCode])
def test_every_error_fits_its_column(error: ErrorCode | None) -> None:
    facts = translate.task_facts(a_report(error=error))
    assert facts is not None
    assert facts.error == ("" if error is None else error.value)
    assert len(facts.error) <= 32


def test_a_report_is_translated_whole() -> None:
    facts = translate.task_facts(
        a_report(
            phase="exited",
            exit_code=137,
            oom_killed=True,
            message="killed",
            started_at="2026-03-01T12:00:00+02:00",
            finished_at="2026-03-01T12:00:00",
            container_id="abc",
            host_port=32768,
            log_bytes=7,
            log_truncated=True,
        )
    )
    assert facts is not None
    assert (facts.phase, facts.exit_code, facts.oom_killed, facts.message) == ("exited", 137, True, "killed")
    assert facts.started_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert facts.finished_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert (facts.container_id, facts.host_port, facts.log_bytes, facts.log_truncated) == ("abc", 32768, 7, True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("exit_code", 10**30),
        ("exit_code", -1),
        ("host_port", 0),
        ("host_port", 70_000),
        ("log_bytes", -1),
        ("log_bytes", 10**30),
        ("started_at", "0001-01-01T00:00:00+14:00"),
        ("finished_at", "9999-12-31T23:59:59-12:00"),
    ],
)
def test_what_no_column_can_hold_is_not_known(field: str, value: Any) -> None:
    facts = translate.task_facts(a_report(**{field: value}))
    assert facts is not None
    assert getattr(facts, field) is None


@pytest.mark.parametrize("text", ["", "\x00", "a b", "\u00fc", "x" * 65, "a\n"])
def test_what_is_no_id_names_no_task(text: str) -> None:
    assert translate.task_facts(a_report(task_id=text)) is None
    assert translate.task_facts(a_report(nonce=text)) is None
    assert translate.chunk(LogChunk(task_id=text, nonce="n", stream="stdout", offset=0, data=b"eA==")) is None


@pytest.mark.parametrize("offset", [-1, 10**30])
def test_a_chunk_at_an_offset_that_no_log_has_is_passed_over(offset: int) -> None:
    wire = LogChunk.model_validate_json(
        json.dumps({"task_id": "t", "nonce": "n", "stream": "stderr", "offset": offset, "data": "eA=="})
    )
    assert translate.chunk(wire) is None


def test_text_loses_what_no_column_can_hold() -> None:
    facts = translate.task_facts(a_report(message="a\x00b" + "c" * 2000))
    assert facts is not None
    assert facts.message == ("a\ufffdb" + "c" * 2000)[:1000]


@pytest.mark.parametrize(
    ("reported", "known"),
    [
        ({"memory_mib": -1}, {"memory_mib": None}),
        ({"memory_mib": 0}, {"memory_mib": None}),
        ({"utilisation_percent": 255}, {"utilisation_percent": None}),
        ({"temperature_c": 65_535}, {"temperature_c": None}),
        ({"power_mw": 2**32 - 1}, {"power_mw": None}),
        ({"memory_used_mib": 0}, {"memory_used_mib": 0}),
        ({}, {"utilisation_percent": None, "power_mw": None, "healthy": True}),
    ],
)
def test_a_figure_that_makes_no_sense_is_null_not_zero(reported: dict[str, Any], known: dict[str, Any]) -> None:
    """B056"""
    card = DeviceInfo.model_validate({"uuid": "GPU-1", "model": "V100", "memory_mib": 32_510, **reported})
    facts = translate.device_facts(card)
    assert {name: getattr(facts, name) for name in known} == known


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("inventory.cpu_milli", {"cpu_milli": -1}),
        ("inventory.cpu_milli", {"cpu_milli": 10**12}),
        ("inventory.memory_mib", {"memory_mib": 10**12}),
        ("inventory.devices.0.uuid", {"devices": [{"uuid": "", "model": "V100", "memory_mib": 1}]}),
        ("inventory.devices.0.uuid", {"devices": [{"uuid": "a\x00", "model": "V100", "memory_mib": 1}]}),
        ("inventory.devices", {"devices": [{"uuid": f"{n}", "model": "V100", "memory_mib": 1} for n in range(257)]}),
    ],
)
def test_an_inventory_that_makes_no_sense_is_refused_by_field(
    field: str, change: dict[str, Any], heartbeat: dict[str, Any]
) -> None:
    heartbeat["inventory"] |= change
    with pytest.raises(InvalidInputError) as refused:
        translate.node_facts(Heartbeat.model_validate(heartbeat))
    assert refused.value.errors[0].field == field


def test_a_task_becomes_a_spec_with_all_its_fields() -> None:
    task = DesiredTask(
        task_uid="job-1-2-0",
        nonce="secret",
        workload_uid="job-1",
        workload_name="train",
        kind="job",
        attempt=2,
        rank=0,
        tasks=1,
        image="pytorch",
        reference="pytorch:2",
        command=["python", "train.py"],
        env={"A": "1"},
        cpu_milli=4_000,
        memory_mib=1_024,
        shares=[("GPU-1", 3_999, 125, False)],
        mounts=[{"source": "fld-1", "path": "/data", "mode": "ro"}, {"source": "fld-2", "path": "/out", "mode": "rw"}],
        port=8888,
        stop=True,
        stop_reason="preempted",
        log_limit_bytes=10,
    )
    spec = translate.task_spec(task)
    assert spec.model_dump(mode="json") == {
        "task_id": "job-1-2-0",
        "nonce": "secret",
        "workload_id": "job-1",
        "workload_name": "train",
        "kind": "job",
        "attempt": 2,
        "rank": 0,
        "tasks": 1,
        "image": "pytorch",
        "reference": "pytorch:2",
        "command": ["python", "train.py"],
        "env": {"A": "1"},
        "cpu_milli": 4_000,
        "memory_mib": 1_024,
        "devices": [{"uuid": "GPU-1", "memory_mib": 3_999, "compute_milli": 125, "whole": False}],
        "mounts": [
            {"source": "fld-1", "target": "/data", "read_only": True},
            {"source": "fld-2", "target": "/out", "read_only": False},
        ],
        "port": 8888,
        "stop": True,
        "stop_reason": "preempted",
        "grace_s": 120,
        "log_limit_bytes": 10,
    }
