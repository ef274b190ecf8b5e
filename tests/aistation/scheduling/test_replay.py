"""Any decision can be looked at again."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from aistation.scheduling.cycle import run_cycle
from tests.factories.work import submitted
from tests.factories.world import Site


@pytest.mark.django_db(transaction=True)
def test_a_cycle_is_kept_and_decided_again(
    site: Site, settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.SNAPSHOT_DIR = str(tmp_path / "kept")
    starts, waits = submitted(site, gpus=8), submitted(site)
    run_cycle()
    (kept,) = (tmp_path / "kept").iterdir()
    call_command("replay", str(kept), json=tmp_path / "plan.json", stdout=None)
    told = capsys.readouterr().out
    assert f"starts  {starts.uid} on n1" in told
    assert f"waits   1. {waits.uid}: " in told
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert [one["request_id"] for one in plan["placements"]] == [starts.uid]


@pytest.mark.django_db(transaction=True)
def test_the_present_is_dumped(site: Site, tmp_path: Path) -> None:
    job = submitted(site)
    call_command("dump_snapshot", str(tmp_path / "now.json"))
    assert [one["id"] for one in json.loads((tmp_path / "now.json").read_text())["pending"]] == [job.uid]


def test_what_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(CommandError, match="is no snapshot"):
        call_command("replay", str(tmp_path / "x.json"))
