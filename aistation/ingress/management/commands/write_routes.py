"""`manage.py write_routes`: what the tick of the workers does, once and now."""

from typing import Any

from django.core.management.base import BaseCommand

from aistation.core.clock import now
from aistation.ingress.publish import write_routes


class Command(BaseCommand):
    help = "Bring the gateway's files up to date with the running environments."

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.stdout.write("written" if write_routes(now()) else "up to date")
