"""`manage.py simulate SCENARIO.json`: weeks of a cluster on a virtual clock. Needs no database and no network."""

import json
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from scheduler.simulator.overrides import override
from scheduler.simulator.run import simulate
from scheduler.simulator.scenario import Scenario, ScenarioError, parse_scenario

_ROWS: Final = (
    ("12-hour equivalents a week", "twelve_hour_equivalents_per_week"),
    ("jobs done a week", "jobs_per_week"),
    ("hours per card and day", "hours_per_card_per_day"),
    ("cards allocated, %", "allocation_percent"),
    ("utilisation, %", "utilisation_percent"),
    ("environments a week", "environments_per_week"),
    ("  that never got a place", "environments_unserved_per_week"),
    ("preemptions a week", "preemptions_per_week"),
    ("card hours lost a week", "lost_card_hours_per_week"),
    ("card hours lent a week", "lent_card_hours_per_week"),
)
_WAITS: Final = (("wait of environments", "environment_wait_s"), ("wait of jobs", "job_wait_s"))
_SHADES: Final = " .:-=+*#%@"


class Command(BaseCommand):
    help = "Run a scenario on a virtual clock with the scheduler of production, and print what comes of it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("scenario", type=Path, help="a file such as scenarios/customer_reclaim.json")
        parser.add_argument("--json", type=Path, metavar="OUT", help="write all results to this file")
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            dest="overrides",
            metavar="PATH=VALUE",
            help="change a value of the scenario, e.g. weeks=1 or lending.idle-cards.keep_free_slices=8",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        scenario = _read(options["scenario"], options["overrides"])
        started = time.perf_counter()
        try:
            found = simulate(scenario)
        except RuntimeError as error:
            raise CommandError(f"the simulation broke off: {error}") from error
        results = {
            "scenario": scenario.name,
            "seed": scenario.seed,
            "runs": scenario.runs,
            "weeks": scenario.weeks,
            "elapsed_s": round(time.perf_counter() - started, 2),
            **found,
        }
        for line in _table(scenario, results):
            self.stdout.write(line)
        if options["json"]:
            try:
                options["json"].write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
            except OSError as error:
                raise CommandError(f"{options['json']} cannot be written: {error.strerror}") from error


def _read(path: Path, overrides: list[str]) -> Scenario:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CommandError(f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise CommandError(f"{path}: a scenario is a JSON object")
    try:
        return parse_scenario(override(data, overrides))
    except ScenarioError as error:
        raise CommandError(f"{path}:\n{error}") from error


def _table(scenario: Scenario, results: Mapping[str, Any]) -> Iterator[str]:
    yield f"{scenario.name}: {scenario.weeks} weeks after {scenario.warmup_weeks}, in {results['elapsed_s']} s"
    for title, name in _ROWS:
        yield f"  {title:<28}{results[name]:>12,.2f}"
    for title, name in _WAITS:
        waits = results[name]
        yield f"  {title:<28}" + "  ".join(f"{key} {_length(waits[key]):>8}" for key in ("p50", "p95", "max"))
    for group, share in results["share_per_group"].items():
        yield f"  {'share of ' + group:<28}{100 * share:>11,.1f}%"
    yield "  cards allocated by the hour, 0 to 23 h (blank 0 %, @ over 90 %)"
    for number, day in enumerate(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")):
        hours = results["hourly_allocation_percent"][24 * number : 24 * number + 24]
        yield f"    {day} |{''.join(_SHADES[min(9, int(percent) // 10)] for percent in hours)}|"


def _length(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
