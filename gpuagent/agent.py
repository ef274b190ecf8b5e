"""Puts one agent together and keeps it going."""

import logging
import os
import threading
from collections.abc import Mapping
from typing import Final

import gpuagent
from agentapi.v1 import DeviceInfo, ForeignContainer, Inventory, RuntimeName
from gpuagent.client import Client
from gpuagent.config import Config, GpuKind, RuntimeChoice
from gpuagent.devices.base import DeviceProvider, NoDevices
from gpuagent.devices.nvml import NvmlDevices, has_nvml
from gpuagent.devices.sampler import DeviceSampler
from gpuagent.devices.simulated import SimulatedDevices, simulated_host
from gpuagent.heartbeat import Heart
from gpuagent.hostinfo import HostFigures, disk_used_percent, read_host
from gpuagent.identity import NodeIdentity, boot_id, fingerprint, lock_state_dir
from gpuagent.logs import LogShipper
from gpuagent.loop import ReconcileLoop
from gpuagent.operations import Operations
from gpuagent.reporter import Reporter
from gpuagent.runtime.base import ContainerRuntime, TaskError
from gpuagent.runtime.probe import RuntimeProbe, wait_until_answered
from gpuagent.runtime.process import ProcessRuntime
from gpuagent.runtime.recipes import RecipeBook
from gpuagent.standing import Standing
from gpuagent.store import Store
from gpuagent.tasks import TaskBook
from gpuagent.threads import Loop
from gpuagent.wake import WakeListener

log = logging.getLogger(__name__)

_FIRST_READING_S: Final = 3.0
_WATCH_S: Final = 5.0
_STUCK_AFTER_S: Final = 60.0  # longer than any call to the server may take


class Agent:
    """One node's agent. ``run`` returns when ``stop`` was called; containers go on without it."""

    def __init__(self, config: Config) -> None:
        self._lock_fd = lock_state_dir(config.state_dir)
        self._config = config
        self._store = Store(config.state_dir)
        self._standing = Standing()
        self._client = Client(config.server)
        self._provider = _choose_devices(config)
        self._sampler = DeviceSampler(self._provider)
        self._host = _choose_host(config)
        self._runtime = _choose_runtime(config)
        self._probe = RuntimeProbe(self._runtime)
        self._book = TaskBook(self._store, boot_id(), self._note_news)
        self._logs = LogShipper(self._client, self._book, self._store)
        identity = NodeIdentity(
            node_name=config.node_name,
            token_file=config.token_file,
            fingerprint=fingerprint(config.state_dir),
            boot_id=boot_id(),
            agent_version=gpuagent.__version__,
            address=config.address,
        )
        self._reporter = Reporter(
            self._client, self._book, identity.fingerprint, on_answer=self._wake_loop, on_remove=self._remove_foreign
        )
        operations = Operations(
            runtime=self._runtime,
            book=self._book,
            store=self._store,
            data_root=config.data_root,
            folder_owner=_folder_owner(config, self._runtime),
            devices=self._devices,
        )
        self._loop = ReconcileLoop(
            client=self._client,
            runtime=self._runtime,
            book=self._book,
            operations=operations,
            standing=self._standing,
            reporter=self._reporter,
        )
        self._heart = Heart(
            client=self._client,
            store=self._store,
            standing=self._standing,
            identity=identity,
            inventory=self._inventory,
            on_version=self._loop.note_version,
        )
        self._wake = WakeListener(config.server, self._client, self._loop.note_version)
        self._stopped = threading.Event()

    def run(self) -> None:
        log.info("agent of node %s, runtime %s, state in %s", *self._names())
        self._book.load()
        self._sampler.start()
        self._probe.start()
        self._sampler.wait_for_first(_FIRST_READING_S)
        wait_until_answered(self._probe, _FIRST_READING_S)
        self._runtime.open(self._loop.note_change)
        threads: tuple[Loop, ...] = (self._reporter, self._logs, self._heart, self._wake, self._loop)
        for thread in threads:
            thread.start()
        while not self._stopped.wait(_WATCH_S):
            for thread in threads:
                if thread.stuck_s() > _STUCK_AFTER_S:
                    log.error("%s has not moved for %d s", thread.name, thread.stuck_s())
        for thread in (*threads, self._sampler, self._probe):
            thread.halt()
        if self._config.end_processes and isinstance(self._runtime, ProcessRuntime):
            self._runtime.interrupt_all()
        self._provider.close()
        self._runtime.close()
        os.close(self._lock_fd)

    def stop(self) -> None:
        """End ``run``. May be called from a signal handler or another thread."""
        self._stopped.set()

    def _names(self) -> tuple[str, str, str]:
        return self._config.node_name, self._runtime.name, str(self._config.state_dir)

    def _inventory(self) -> Inventory:
        reading, health = self._sampler.latest(), self._probe.latest()
        stuck = [t.name for t in (self._loop, self._reporter) if t.stuck_s() > _STUCK_AFTER_S]
        return Inventory(
            hostname=self._host.hostname,
            cpu_milli=self._host.cpu_milli,
            memory_mib=self._host.memory_mib,
            devices=reading.devices,
            devices_error=reading.error,
            runtime=self._runtime.name,
            runtime_error=health.error or (f"the agent is stuck in: {', '.join(stuck)}" if stuck else ""),
            runtime_version=health.version,
            disk_used_percent=disk_used_percent(self._config.state_dir),
            simulated=self._host.simulated,
        )

    def _devices(self) -> Mapping[str, DeviceInfo]:
        return {device.uuid: device for device in self._sampler.latest().devices}

    def _note_news(self) -> None:
        self._logs.wake()
        self._reporter.wake()

    def _wake_loop(self) -> None:
        self._loop.wake()

    def _remove_foreign(self, container: ForeignContainer) -> None:
        self._loop.remove_foreign(container)


def _choose_devices(config: Config) -> DeviceProvider:
    choice = config.gpus
    if choice.kind == GpuKind.SIMULATED:
        return SimulatedDevices(config.node_name, choice.count, choice.model)
    if choice.kind == GpuKind.NVML or (choice.kind == GpuKind.AUTO and has_nvml()):
        return NvmlDevices()
    return NoDevices()


def _choose_host(config: Config) -> HostFigures:
    host = read_host()
    return simulated_host(host.hostname) if config.gpus.kind == GpuKind.SIMULATED else host


def _choose_runtime(config: Config) -> ContainerRuntime:
    if config.runtime == RuntimeChoice.DOCKER or (config.runtime == RuntimeChoice.AUTO and _has_engine()):
        from gpuagent.runtime.docker import DockerRuntime  # noqa: PLC0415 - the SDK is large, most agents may not need it

        return DockerRuntime(config.node_name, config.address, config.container_user)
    recipes = RecipeBook(config.images_dir, config.recipes_dir or config.state_dir / "recipes")
    return ProcessRuntime(config.state_dir / "process", recipes)


def _has_engine() -> bool:
    from gpuagent.runtime.docker_engine import Engine  # noqa: PLC0415 - as above

    try:
        Engine().version()
    except TaskError as error:
        log.info("no container engine, so tasks will be plain processes: %s", error)
        return False
    return True


def _folder_owner(config: Config, runtime: ContainerRuntime) -> tuple[int, int] | None:
    """Who gets the folders that the agent makes; None: the agent's own user."""
    if runtime.name == RuntimeName.PROCESS or not config.container_user or os.geteuid() != 0:
        return None
    uid, _, gid = config.container_user.partition(":")
    return int(uid), int(gid)
