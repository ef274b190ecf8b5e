"""The variables of a task."""

import pytest

from agentapi.v1 import DeviceInfo, DeviceShare, ErrorCode
from gpuagent.environment import check_fits, split_devices, task_environment
from gpuagent.runtime.base import TaskError
from tests.gpuagent.specs import a_spec

_REAL = DeviceInfo(uuid="GPU-real", model="V100", memory_mib=32510)
_MADE_UP = DeviceInfo(uuid="GPU-made-up", model="V100", memory_mib=32510, simulated=True)
_KNOWN = {device.uuid: device for device in (_REAL, _MADE_UP)}


def _share(device: DeviceInfo) -> DeviceShare:
    return DeviceShare(uuid=device.uuid, memory_mib=4000, compute_milli=125)


def test_a_task_without_cards_sees_none() -> None:
    """B059: whatever the user or the image says."""
    env = task_environment(a_spec("x", env={"NVIDIA_VISIBLE_DEVICES": "all"}), {})
    assert (env["NVIDIA_VISIBLE_DEVICES"], env["AISTATION_SIMULATED_GPUS"]) == ("void", "")


def test_real_cards_are_named_by_uuid_and_simulated_ones_apart() -> None:
    spec = a_spec("x", devices=(_share(_REAL), _share(_MADE_UP)))
    env = task_environment(spec, _KNOWN)
    assert (env["NVIDIA_VISIBLE_DEVICES"], env["AISTATION_SIMULATED_GPUS"]) == ("GPU-real", "GPU-made-up")
    assert (env["AISTATION_GPU_MEMORY_MIB"], env["CUDA_DEVICE_ORDER"]) == ("4000,4000", "PCI_BUS_ID")
    assert split_devices(spec, _KNOWN) == (("GPU-real",), ("GPU-made-up",))


def test_a_card_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        split_devices(a_spec("x", devices=(_share(_REAL),)), {})


def test_the_place_of_a_task_in_its_workload_is_told() -> None:
    spec = a_spec("x", env={"EPOCHS": "90", "AISTATION_RANK": "7"}, rank=1, tasks=4, attempt=2)
    env = task_environment(spec, {})
    assert env["EPOCHS"] == "90"
    assert [env[f"AISTATION_{name}"] for name in ("TASK_ID", "WORKLOAD_ID", "ATTEMPT", "RANK", "TASKS")] == [
        spec.task_id,
        spec.workload_id,
        "2",
        "1",
        "4",
    ]


@pytest.mark.parametrize(
    ("command", "env"),
    [
        (["x" * 131_072], {}),
        (["x"], {"A": "x" * 131_070}),
        (["x"], {f"V{i}": "x" * 100_000 for i in range(30)}),
        (["中" * 50_000], {}),
    ],
)
def test_what_the_kernel_would_refuse_is_refused_before(command: list[str], env: dict[str, str]) -> None:
    """B073."""
    with pytest.raises(TaskError) as caught:
        check_fits(command, env)
    assert caught.value.code == ErrorCode.BAD_SPEC


def test_what_just_fits_passes() -> None:
    check_fits(["x" * 131_071], {"A": "x" * 131_069})
