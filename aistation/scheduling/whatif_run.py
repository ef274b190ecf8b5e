"""`python -m aistation.scheduling.whatif_run`: one scenario from standard input, in a process of its own.

So no page and no decision waits for it. Writes lines of JSON: ``{"percent": 40}`` now and then, at last
``{"results": ...}`` or ``{"error": ...}``. Needs neither settings nor tables.
"""

import json
import os
import sys
from collections.abc import Iterable
from typing import Any

from scheduler.model import TaskPlacement
from scheduler.simulator.measure import Meter
from scheduler.simulator.run import Simulation
from scheduler.simulator.scenario import ScenarioError, parse_scenario
from scheduler.simulator.streams import Work


class _Telling(Meter):
    """Says how far the simulation has come."""

    start_us = 0
    told = 0

    def hold(self, work: Work, tasks: Iterable[TaskPlacement], now_us: int, sign: int) -> None:
        super().hold(work, tasks, now_us, sign)
        percent = 100 * (now_us - self.start_us) // (self.until_us - self.start_us)
        if percent > self.told:
            self.told = percent
            _say({"percent": percent})


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    os.nice(10)
    try:
        scenario = parse_scenario(json.load(sys.stdin))
        simulation = Simulation(scenario, scenario.seed)
        meter = simulation.meter
        telling = _Telling(scenario, meter.from_us, meter.until_us, meter.hour_of_week)
        telling.start_us = 2 * meter.from_us - meter.until_us  # as long to settle as is measured
        simulation.meter = telling
        _say({"results": simulation.run()})
    except (ScenarioError, RuntimeError) as error:
        _say({"error": str(error)})


if __name__ == "__main__":
    main()
