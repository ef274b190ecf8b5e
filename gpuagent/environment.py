"""The environment variables of a task: the platform's, which nobody overrules, and the user's. Pure."""

from collections.abc import Mapping

from agentapi.v1 import DeviceInfo, TaskSpec


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
