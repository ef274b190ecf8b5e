"""Puts the icons named in icons.txt into one SVG, so that a page loads one small file instead of a font.

python assets/sprite.py NODE_MODULES OUT.svg
"""

import re
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_BODY = re.compile(r"<svg[^>]*>(.*)</svg>", re.DOTALL)


def sprite(icons: Path, names: list[str]) -> str:
    """``icons``: the directory with one SVG file for each name."""
    symbols = []
    for name in names:
        found = _BODY.search((icons / f"{name}.svg").read_text(encoding="utf-8"))
        if found is None:
            raise SystemExit(f"{name}.svg is not an SVG image")
        body = re.sub(r"\s*\n\s*", "", found.group(1).strip())
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{body}</symbol>')
    return '<svg xmlns="http://www.w3.org/2000/svg">' + "".join(symbols) + "</svg>\n"


if __name__ == "__main__":
    wanted = (_HERE / "icons.txt").read_text(encoding="utf-8").split()
    drawn = sprite(Path(sys.argv[1]) / "@tabler/icons/icons/outline", wanted)
    Path(sys.argv[2]).write_text(drawn, encoding="utf-8")
