#!/usr/bin/env python3
"""Compile locale/*/LC_MESSAGES/*.po, without gettext on the machine. Up-to-date ones are left alone."""

from pathlib import Path

import polib

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    for source in sorted(ROOT.glob("locale/*/LC_MESSAGES/*.po")):
        compiled = source.with_suffix(".mo")
        if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
            polib.pofile(str(source)).save_as_mofile(str(compiled))


if __name__ == "__main__":
    main()
