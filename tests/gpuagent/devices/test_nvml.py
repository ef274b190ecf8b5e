"""Real cards through the real pynvml, over a libnvidia-ml.so.1 whose answers and faults a file says."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuagent.devices.nvml import NvmlDevices
from gpuagent.devices.sampler import STALE_AFTER_S, DeviceSampler

_SOURCE = Path(__file__).parents[2] / "fakes" / "nvml" / "fake_nvml.c"
_V100 = 34_089_730_048  # bytes: 32,510 MiB
_A = f"card GPU-aaaa 00000000:3B:00.0 {_V100} 1073741824 37 61 250123 Tesla V100-SXM2-32GB"
_B = f"card GPU-bbbb 00000000:1A:00.0 {_V100} 0 0 40 50000 Tesla V100-SXM2-32GB"
_GPU_IS_LOST, _NOT_SUPPORTED, _LIB_RM_VERSION_MISMATCH, _UNKNOWN = 15, 3, 18, 999
_FIELDS = {
    "nvmlDeviceGetMemoryInfo": "memory_mib",
    "nvmlDeviceGetUtilizationRates": "utilisation_percent",
    "nvmlDeviceGetTemperature": "temperature_c",
    "nvmlDeviceGetPowerUsage": "power_mw",
}


class Driver:
    """The fake driver: cards and faults, changed at any time."""

    def __init__(self, library: Path, state: Path) -> None:
        self._state = state
        self.environment = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(state)}

    def says(self, *lines: str) -> None:
        temporary = self._state.with_suffix(".new")
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
        temporary.replace(self._state)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("nvml")
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(["gcc", *flags, "-o", directory / "libnvidia-ml.so.1", _SOURCE], check=True, timeout=60)
    return directory


@pytest.fixture
def driver(library: Path, tmp_path: Path) -> Driver:
    driver = Driver(library, tmp_path / "state")
    driver.says(_A, _B)
    return driver


@pytest.fixture
def devices(driver: Driver) -> Iterator[NvmlDevices]:
    devices = NvmlDevices(driver.environment, answer_timeout_s=30)
    yield devices
    devices.close()


def test_cards_come_by_uuid_in_pci_order_with_their_figures(devices: NvmlDevices) -> None:
    """B055."""
    reading = devices.read()
    assert reading.error == ""
    assert [device.uuid for device in reading.devices] == ["GPU-bbbb", "GPU-aaaa"]
    card = reading.devices[1]
    assert (card.model, card.memory_mib, card.memory_used_mib) == ("Tesla V100-SXM2-32GB", 32_510, 1024)
    assert (card.utilisation_percent, card.temperature_c, card.power_mw) == (37, 61, 250_123)
    assert (card.healthy, card.reason, card.simulated) == (True, "", False)


def test_another_index_order_changes_nothing(driver: Driver, devices: NvmlDevices) -> None:
    """B055."""
    before = devices.read()
    driver.says(_B, _A)
    assert devices.read() == before


@pytest.mark.parametrize("function", _FIELDS)
@pytest.mark.parametrize("code", [_NOT_SUPPORTED, _UNKNOWN])
def test_a_value_that_cannot_be_read_is_none_with_a_reason(
    driver: Driver, devices: NvmlDevices, function: str, code: int
) -> None:
    """B056: and the card stays."""
    driver.says(_A, f"fault {function} {code}")
    (card,) = devices.read().devices
    assert getattr(card, _FIELDS[function]) is None
    assert card.reason != ""
    assert card.healthy
    driver.says(_A)
    (card,) = devices.read().devices
    assert getattr(card, _FIELDS[function]) is not None
    assert card.reason == ""


def test_a_lost_card_is_unhealthy(driver: Driver, devices: NvmlDevices) -> None:
    driver.says(_A, f"fault nvmlDeviceGetMemoryInfo {_GPU_IS_LOST}")
    (card,) = devices.read().devices
    assert not card.healthy


def test_memory_that_reads_as_nothing_is_unknown(driver: Driver, devices: NvmlDevices) -> None:
    """B056: such a card is offered to nobody."""
    driver.says("card GPU-cccc 00000000:1A:00.0 0 0 0 40 50000 Strange")
    (card,) = devices.read().devices
    assert card.memory_mib is None


def test_a_driver_of_another_version_is_said_and_recovered_from(driver: Driver, devices: NvmlDevices) -> None:
    """B056: without a restart of the agent."""
    driver.says(_A, f"fault nvmlInitWithFlags {_LIB_RM_VERSION_MISMATCH}")
    reading = devices.read()
    assert reading.devices == ()
    assert reading.error.startswith("NVML: ")
    driver.says(_A)
    assert [device.uuid for device in devices.read().devices] == ["GPU-aaaa"]


def test_no_library_is_an_error_and_no_crash() -> None:
    devices = NvmlDevices({"LD_LIBRARY_PATH": "/nonexistent"})
    reading = devices.read()
    devices.close()
    assert reading.devices == ()
    assert "Not Found" in reading.error


def test_a_call_that_hangs_is_given_up_and_recovered_from(driver: Driver) -> None:
    """R25: the reader is killed, the next one answers."""
    devices = NvmlDevices(driver.environment, answer_timeout_s=1)
    driver.says(_A, "hang nvmlDeviceGetPowerUsage")
    assert devices.read().error != ""
    driver.says(_A)
    wide = NvmlDevices(driver.environment, answer_timeout_s=30)
    assert [device.uuid for device in wide.read().devices] == ["GPU-aaaa"]
    devices.close()
    wide.close()


def test_a_card_that_vanishes_stays_known_and_comes_back(driver: Driver, devices: NvmlDevices) -> None:
    """B055: what runs on it is not forgotten."""
    sampler = DeviceSampler(devices)
    sampler.step()
    driver.says(_B)
    sampler.step()
    cards = {device.uuid: device for device in sampler.latest().devices}
    assert cards["GPU-bbbb"].healthy
    assert not cards["GPU-aaaa"].healthy
    assert (cards["GPU-aaaa"].memory_mib, cards["GPU-aaaa"].utilisation_percent) == (32_510, None)
    driver.says(_A, _B)
    sampler.step()
    assert all(device.healthy for device in sampler.latest().devices)


def test_an_old_reading_says_so(devices: NvmlDevices) -> None:
    now = 100.0
    sampler = DeviceSampler(devices, lambda: now)
    sampler.step()
    now += STALE_AFTER_S + 1
    reading = sampler.latest()
    assert "has not answered" in reading.error
    assert [device.healthy for device in reading.devices] == [False, False]
