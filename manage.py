#!/usr/bin/env python3
"""Django's command line. `python manage.py help` lists the commands."""

import os
import sys


def main() -> None:
    if sys.argv[1:2] == ["quickstart"]:  # makes the environment that the settings are read from
        from aistation.embedded.quickstart import main as quickstart  # noqa: PLC0415 - only for this command

        sys.exit(quickstart(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "aistation.settings.dev")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - after the settings are named

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
