"""`manage.py dump_snapshot [FILE]`: everything that a decision would depend on now, as JSON."""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from aistation.core.clock import database_now
from aistation.scheduling.snapshot import take_snapshot
from scheduler.snapshot_json import dump


class Command(BaseCommand):
    help = "Write what the scheduler sees now as JSON, for `replay` and for reports of wrong decisions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", type=Path, help="default: standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        text = json.dumps(dump(take_snapshot(epoch=0, now=database_now())), indent=1)
        if options["file"] is None:
            sys.stdout.write(text + "\n")
        else:
            options["file"].write_text(text + "\n")
