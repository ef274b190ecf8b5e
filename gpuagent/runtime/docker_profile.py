"""How a task's container is made: the hardened profile that every one gets. Pure.

Network: all containers of a node share one bridge with ``enable_icc=false``, so that they reach the outside and
are reached through their published port, but never each other. A network for each task would end at 31 of
them with the engine's default address pools.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from docker.types import DeviceRequest, HostConfig, LogConfig, Mount

from agentapi.v1 import TaskSpec
from gpuagent.runtime.base import BoundFolder, Launch

LABEL_TASK: Final = "aistation.task"
LABEL_NONCE: Final = "aistation.nonce"
LABEL_NODE: Final = "aistation.node"  # several agents may share one engine, when trying the product

NOTICE_DIRECTORY: Final = "/run/aistation"

NETWORK: Final = "aistation"
BRIDGE: Final = "aistation0"  # name of its interface, for firewall rules
NETWORK_OPTIONS: Final = {
    "com.docker.network.bridge.enable_icc": "false",
    "com.docker.network.bridge.name": BRIDGE,
}

_MIB: Final = 1024 * 1024
_PIDS_LIMIT: Final = 4096
_OOM_SCORE_ADJ: Final = 500  # rather a task than the agent or the engine
_LOG_FILES: Final = 4
_LOG_KEPT_AT_MOST: Final = 256 * _MIB  # by the engine, for when the agent was away


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """What is the same for all containers of a node. ``user`` is uid:gid; empty: what the image says."""

    api_version: str
    cores_milli: int
    address: str
    user: str
    name: str


def container_name(spec: TaskSpec) -> str:
    """The same for each try to create this container, and not to be guessed by others."""
    return f"aistation-{spec.task_id}-{hashlib.sha256(spec.nonce.encode()).hexdigest()[:8]}"


def create_arguments(launch: Launch, node: NodeProfile) -> dict[str, Any]:
    """Keyword arguments of ``APIClient.create_container``. The task's command replaces the image's entry point."""
    spec = launch.spec
    workspace = next((folder.target for folder in launch.folders if not folder.read_only), None)
    arguments: dict[str, Any] = {
        "image": spec.reference,
        "name": container_name(spec),
        "labels": {LABEL_NODE: node.name, **_labels(spec)},
        "environment": _environment(launch, node, workspace),
        "host_config": _host_config(launch, node),
    }
    if spec.command:
        arguments["entrypoint"] = list(spec.command)
    if workspace is not None:
        arguments["working_dir"] = workspace
    if node.user:
        arguments["user"] = node.user
    if spec.port is not None:
        arguments["ports"] = [(spec.port, "tcp")]
    return arguments


def _labels(spec: TaskSpec) -> dict[str, str]:
    return {
        LABEL_TASK: spec.task_id,
        LABEL_NONCE: spec.nonce,
        "aistation.workload": spec.workload_id,
        "aistation.kind": spec.kind,
        "aistation.attempt": str(spec.attempt),
        "aistation.rank": str(spec.rank),
    }


def _environment(launch: Launch, node: NodeProfile, workspace: str | None) -> dict[str, str]:
    """The task's variables; a home and a name for a user that the image does not know."""
    own = {"HOME": workspace or "/tmp", "USER": "user", "LOGNAME": "user"} if node.user else {}  # noqa: S108
    place = {"AISTATION_WORKSPACE": workspace or "", "AISTATION_STOP_FILE": f"{NOTICE_DIRECTORY}/stop"}
    if launch.spec.port is not None:
        place["AISTATION_PORT"] = str(launch.spec.port)
    return {**own, **launch.env, **place}


def _host_config(launch: Launch, node: NodeProfile) -> HostConfig:
    spec = launch.spec
    memory = spec.memory_mib * _MIB
    return HostConfig(
        version=node.api_version,
        network_mode=NETWORK,
        privileged=False,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        ipc_mode="private",
        init=True,
        pids_limit=_PIDS_LIMIT,
        mem_limit=memory,
        memswap_limit=memory,
        shm_size=max(64 * _MIB, memory // 2),  # counts as memory; data loaders need more than the usual 64 MiB
        nano_cpus=min(spec.cpu_milli, node.cores_milli) * 1_000_000,
        oom_score_adj=_OOM_SCORE_ADJ,
        restart_policy={"Name": "no"},
        log_config=_log_config(spec.log_limit_bytes),
        mounts=[
            Mount(f.target, str(f.source), type="bind", read_only=f.read_only, propagation="rprivate")
            for f in (*launch.folders, BoundFolder(launch.notice, NOTICE_DIRECTORY, read_only=True))
        ],
        port_bindings={} if spec.port is None else {f"{spec.port}/tcp": (node.address, None)},
        device_requests=_device_requests(launch.real_devices),
    )


def _log_config(limit_bytes: int) -> LogConfig:
    """``local`` keeps every byte, where ``json-file`` replaces what is not UTF-8."""
    kept = min(limit_bytes + limit_bytes // 4 + _MIB, _LOG_KEPT_AT_MOST)
    config = {"max-size": f"{-(-kept // _LOG_FILES // 1024)}k", "max-file": str(_LOG_FILES), "compress": "false"}
    return LogConfig(type="local", config=config)


def _device_requests(uuids: tuple[str, ...]) -> list[DeviceRequest]:
    """By UUID, never by index or count; none for a task without real cards."""
    if not uuids:
        return []
    return [DeviceRequest(driver="nvidia", device_ids=list(uuids), capabilities=[["gpu", "compute", "utility"]])]
