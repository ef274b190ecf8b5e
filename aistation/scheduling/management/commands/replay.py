"""`manage.py replay SNAPSHOT.json`: decide again on a dumped snapshot and print the plan. Needs no database."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.decide import decide
from scheduler.snapshot_json import load


class Command(BaseCommand):
    help = "Decide on a snapshot that `dump_snapshot` or a cycle has written. Same snapshot, same plan."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("snapshot", type=Path)
        parser.add_argument("--json", type=Path, help="write the whole plan here")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            snapshot = load(json.loads(options["snapshot"].read_text()))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CommandError(f"{options['snapshot']} is no snapshot: {error}") from error
        plan = decide(snapshot)
        if options["json"]:
            options["json"].write_text(json.dumps(asdict(plan), indent=1, default=str) + "\n")
        for placement in plan.placements:
            where = ", ".join(task.node_id for task in placement.tasks)
            lent = f" (lent by {placement.lent_by})" if placement.lent_by else ""
            self.stdout.write(f"starts  {placement.request_id} on {where}{lent}")
        for preemption in plan.preemptions:
            why = preemption.beneficiary or "its pool"
            self.stdout.write(f"leaves  {preemption.workload_id}: {preemption.cause.value}, for {why}")
        for kept in plan.reservations:
            self.stdout.write(f"kept    {', '.join(kept.node_ids)} for {kept.request_id}")
        for waiting in plan.waiting:
            reasons = "; ".join(reason.message for reason in waiting.reasons)
            self.stdout.write(f"waits   {waiting.position}. {waiting.request_id}: {reasons}")
