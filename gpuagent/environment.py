"""The environment variables of a task: the platform's, which nobody overrules, and the user's. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from agentapi.v1 import DeviceInfo, ErrorCode, TaskSpec
from gpuagent.runtime.base import TaskError

_LONGEST_STRING: Final = 128 * 1024 - 1  # bytes of one argument or NAME=value; the kernel's limit on pages of 4 KiB
_LONGEST_TOTAL: Final = 2 * 1024 * 1024 - 64 * 1024  # of all of them with the usual stack limit of 8 MiB
_POINTER: Final = 9  # bytes that each takes besides its own: a pointer and a NUL


def task_environment(spec: TaskSpec, devices: Mapping[str, DeviceInfo]) -> dict[str, str]:
    """All variables of one task. ``devices`` knows every card of the node by its UUID."""
    real, simulated = split_devices(spec, devices)
    platform = {
        "AISTATION_WORKLOAD_ID": spec.workload_id,
        "AISTATION_WORKLOAD_NAME": spec.workload_name,
        "AISTATION_TASK_ID": spec.task_id,
        "AISTATION_ATTEMPT": str(spec.attempt),
        "AISTATION_RANK": str(spec.rank),
        "AISTATION_TASKS": str(spec.tasks),
        "AISTATION_CPU_MILLI": str(spec.cpu_milli),
        "AISTATION_MEMORY_MIB": str(spec.memory_mib),
        "AISTATION_GPU_MEMORY_MIB": ",".join(str(share.memory_mib) for share in spec.devices),
        "AISTATION_GPU_COMPUTE_MILLI": ",".join(str(share.compute_milli) for share in spec.devices),
        "AISTATION_SIMULATED_GPUS": ",".join(simulated),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "NVIDIA_VISIBLE_DEVICES": ",".join(real) or "void",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    return {**spec.env, **platform}


def split_devices(spec: TaskSpec, devices: Mapping[str, DeviceInfo]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """UUIDs of the task's real and of its simulated cards. KeyError when the node has no such card."""
    shares = [(share.uuid, devices[share.uuid].simulated) for share in spec.devices]
    real = tuple(uuid for uuid, is_simulated in shares if not is_simulated)
    return real, tuple(uuid for uuid, is_simulated in shares if is_simulated)


def check_fits(command: Sequence[str], env: Mapping[str, str]) -> None:
    """TaskError BAD_SPEC when the kernel would not take so much. Some engines only notice after the start."""
    strings = [len(word.encode(errors="surrogateescape")) for word in command]
    strings += [len(f"{name}={value}".encode(errors="surrogateescape")) for name, value in env.items()]
    if max(strings, default=0) > _LONGEST_STRING or sum(strings) + _POINTER * len(strings) > _LONGEST_TOTAL:
        raise TaskError(ErrorCode.BAD_SPEC, "the command and the environment are too long for the kernel")
