from collections.abc import Callable

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from aistation.portal.forms.fields import CoresField, MemoryField, SpanField
from aistation.portal.units import byte_size, cards, cores, duration, gpu_request, memory, thousandths
from aistation.quotas.models import QuotaScope
from aistation.tenancy.models import User
from tests.factories.work import placed, submitted
from tests.factories.world import Site


@pytest.mark.django_db
def test_home_shows_my_work_my_quota_and_what_is_free(site: Site, browser_of: Callable[[User], Client]) -> None:
    running, waiting = placed(site), submitted(site, name="patient")
    QuotaScope.objects.filter(group=site.group, user=site.user, pool=None).update(gpu_milli_limit=2000)
    page = browser_of(site.user).get("/").content.decode()
    assert running.uid in page
    assert waiting.uid in page
    assert "No. 1 in default" in page
    assert "1 of 2 cards" in page
    assert "7 of 8 cards free, 56 slices" in page


@pytest.mark.django_db
def test_home_helps_a_newcomer_on(site: Site, browser_of: Callable[[User], Client]) -> None:
    page = browser_of(site.user).get("/").content.decode()
    assert "First steps" in page
    assert 'href="/environments/new"' in page


@pytest.mark.parametrize(
    ("milli", "text"), [(0, "0"), (125, "0.125"), (1000, "1"), (1500, "1.5"), (-250, "-0.25"), (12_010, "12.01")]
)
def test_thousandths_are_exact(milli: int, text: str) -> None:
    assert thousandths(milli) == text


def test_quantities_in_words() -> None:
    assert (cards(1000), cards(125), cores(1000), cores(500)) == (
        "1 card",
        "0.125 cards",
        "1 CPU core",
        "0.5 CPU cores",
    )
    assert (memory(4096), memory(4001), memory(32_510), memory(0)) == ("4 GiB", "4,001 MiB", "31.7 GiB", "0 GiB")
    assert (duration(0), duration(45), duration(5400), duration(90_000)) == ("0 s", "45 s", "1 h 30 min", "1 d 1 h")
    assert duration(86_460) == "1 d"
    assert (byte_size(0), byte_size(1536), byte_size(5 << 30)) == ("0 B", "1.5 KiB", "5.0 GiB")
    assert gpu_request(gpus=0) == "no GPU"
    assert gpu_request(gpus=2, tasks=3) == "3 x 2 cards"
    assert gpu_request(gpus=1, gpu_slices=1) == "1 slice"
    assert gpu_request(gpus=2, gpu_slices=2, gpu_model="V100") == "2 slices of 2 cards (V100)"


@pytest.mark.parametrize(
    ("text", "mib"), [("16", 16_384), ("16 GiB", 16_384), ("512m", 512), ("0.5 g", 512), ("1 TiB", 1 << 20), ("", None)]
)
def test_memory_is_read_as_people_write_it(text: str, mib: int | None) -> None:
    assert MemoryField(required=False).clean(text) == mib


@pytest.mark.parametrize("text", ["0", "-1", "many", "1e9", "16 cores", "99999999 TiB", "١٦"])
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        MemoryField().clean(text)


@pytest.mark.parametrize(("text", "milli"), [("4", 4000), ("0.5", 500), ("0,25", 250), ("1.001", 1001)])
def test_cores_are_exact(text: str, milli: int) -> None:
    assert CoresField().clean(text) == milli
    assert CoresField().prepare_value(milli) == text.replace(",", ".")


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "0.0001", "1e400", "x"])
def test_what_is_no_number_of_cores_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        CoresField().clean(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("12 h", 43_200), ("90min", 5400), ("1 d 6 h", 108_000), ("2", 7200), ("45 s", 45), ("3 天", 259_200)],
)
def test_spans_are_read_as_people_write_them(text: str, seconds: int) -> None:
    assert SpanField().clean(text) == seconds
    assert SpanField().clean(SpanField().prepare_value(seconds)) == seconds


@pytest.mark.parametrize("text", ["soon", "0", "5 years", "h", "999999999 d", "1.5.2 h"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        SpanField().clean(text)
