"""Cards that do not exist."""

import pytest

from gpuagent.devices.simulated import MODELS, SimulatedDevices


def test_a_nodes_cards_keep_their_uuids_and_no_two_nodes_share_any() -> None:
    first = SimulatedDevices("node-1", 8, "V100-32GB").read().devices
    assert first == SimulatedDevices("node-1", 8, "V100-32GB").read().devices
    others = SimulatedDevices("node-2", 8, "V100-32GB").read().devices
    assert len({device.uuid for device in (*first, *others)}) == 16
    assert all(device.simulated and device.memory_mib == 32_510 for device in first)


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="A100-80GB"):
        SimulatedDevices("node-1", 1, "Voodoo2")


def test_models_report_less_than_they_advertise_or_as_much() -> None:
    for name, model in MODELS.items():
        advertised = int(name.rpartition("-")[2].removesuffix("GB")) * 1024
        assert model.memory_mib <= advertised
