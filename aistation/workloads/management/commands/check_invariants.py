"""`manage.py check_invariants`: exit status 1 and one line each when the books do not agree."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from aistation.workloads.invariants import find_violations


class Command(BaseCommand):
    help = "Check the invariants (no card, node or quota overbooked; sums equal a recount). Read-only."

    def handle(self, *args: Any, **options: Any) -> None:
        violations = find_violations()
        for violation in violations:
            self.stdout.write(f"{violation.rule} {violation.what}: {violation.detail}")
        if violations:
            raise CommandError(f"{len(violations)} invariants are broken.")
        self.stdout.write("All invariants hold.")
