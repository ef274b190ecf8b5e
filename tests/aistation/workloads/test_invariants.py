"""The audit finds what is wrong: each breach is made by hand, behind the product's back."""

import pytest
from django.core.management import CommandError, call_command

from aistation.fleet.models import Device, Node
from aistation.quotas.models import QuotaScope
from aistation.workloads.invariants import find_violations
from aistation.workloads.models import DeviceShare, Workload
from tests.factories.work import placed
from tests.factories.world import Site


def rules() -> list[str]:
    return [violation.rule for violation in find_violations()]


def test_an_orderly_site_has_no_violations(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    placed(site)
    call_command("check_invariants")
    assert capsys.readouterr().out == "All invariants hold.\n"


def test_a_card_whose_stored_sum_drifted_is_found(site: Site) -> None:
    placed(site)
    Device.objects.filter(uuid="GPU-n1-3").update(taken_milli=125)
    assert rules() == ["I5"]
    with pytest.raises(CommandError):
        call_command("check_invariants")


def test_a_node_and_a_quota_that_drifted_are_found(site: Site) -> None:
    placed(site)
    Node.objects.update(cpu_taken_milli=7)
    QuotaScope.objects.filter(user=None, pool=None).update(gpu_milli_used=1)
    assert rules() == ["I5", "I5"]


def test_a_card_that_is_whole_and_shared_is_found(site: Site) -> None:
    first, second = placed(site, 0), placed(site, 1)
    assert first != second
    Device.objects.filter(uuid="GPU-n1-0").update(memory_mib=99_999)
    DeviceShare.objects.filter(device__uuid="GPU-n1-1").update(device=Device.objects.get(uuid="GPU-n1-0"))
    assert "I1" in rules()


def test_a_state_that_no_transition_explains_is_found(site: Site) -> None:
    job = placed(site)
    Workload.objects.filter(pk=job.pk).update(state="running")
    assert rules() == ["I3"]
