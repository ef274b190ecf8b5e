"""`manage.py quickstart`: all of AIStation in one foreground process.

`manage.py` itself runs it, before any settings are read, since it makes the environment that they are read from.
This class is for `manage.py help`.
"""

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from aistation.embedded.options import add_arguments


class Command(BaseCommand):
    help = "Run all of AIStation on this machine, with stores of its own. Ctrl-C stops it."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Start again as `manage.py` does it."""
        os.execv(sys.executable, [sys.executable, str(settings.BASE_DIR / "manage.py"), *sys.argv[1:]])  # noqa: S606
