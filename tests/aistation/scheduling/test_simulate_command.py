"""The command runs without a database: these tests have none."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

SCENARIOS = Path(__file__).parents[3] / "scenarios"
STATIC = str(SCENARIOS / "customer_static.json")
QUICK = ("--set", "weeks=1", "--set", "warmup_weeks=0")


def test_it_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    out, written = StringIO(), tmp_path / "results.json"
    call_command("simulate", STATIC, "--json", str(written), *QUICK, stdout=out)
    results = json.loads(written.read_text())
    assert results["twelve_hour_equivalents_per_week"] == 224
    assert results["hours_per_card_per_day"] == 15.09
    assert set(results["environment_wait_s"]) >= {"p50", "p95", "max"}
    assert len(results["hourly_allocation_percent"]) == 168
    for name in ("jobs_per_week", "utilisation_percent", "preemptions_per_week", "lost_card_hours_per_week"):
        assert isinstance(results[name], int | float)
    assert "12-hour equivalents a week" in out.getvalue()
    assert "Mon |+++++++++@@@@@@@@" in out.getvalue()


def test_values_can_be_set(tmp_path: Path) -> None:
    written = tmp_path / "results.json"
    call_command(
        "simulate", STATIC, "--json", str(written), *QUICK, "--set", "pools.training.nodes.0.count=1", stdout=StringIO()
    )
    assert json.loads(written.read_text())["twelve_hour_equivalents_per_week"] == 112


def test_what_is_wrong_is_told_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"pools.1.nodes.0.gpus"):
        call_command("simulate", STATIC, "--set", "pools.training.nodes.0.gpus=-1")
    with pytest.raises(CommandError, match="there is no 'night'"):
        call_command("simulate", STATIC, "--set", "pools.night.nodes=1")
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("simulate", str(tmp_path / "none.json"))
    for text in ("{", "[]"):
        (tmp_path / "broken.json").write_text(text)
        with pytest.raises(CommandError, match=r"broken\.json"):
            call_command("simulate", str(tmp_path / "broken.json"))
