"""`manage.py bootstrap`: what a fresh installation starts with. Harmless to run again."""

import json
import secrets
from typing import Any

from django.core.management.base import BaseCommand

from aistation.embedded.bootstrap import bootstrap, migrate


class Command(BaseCommand):
    help = "Migrate, and make the first administrator, group, pool, images and profiles. Prints the password once."

    def handle(self, *args: Any, **options: Any) -> None:
        migrate()
        password = secrets.token_urlsafe(15)
        made = bootstrap(password=password)
        if made.created:
            self.stdout.write(json.dumps({"username": made.username, "password": password, "token": made.token}))
        else:
            self.stderr.write("There is an administrator already; a new API token was made.")
            self.stdout.write(json.dumps({"username": made.username, "token": made.token}))
