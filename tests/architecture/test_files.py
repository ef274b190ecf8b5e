"""Lock files and the README say what the code needs, and no more."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_lock_files_name_packages_and_hashes_but_no_host() -> None:
    for lock in ("requirements.txt", "tests/requirements.txt", "deploy/agent.txt", "deploy/uv.txt", "deploy/node.txt"):
        text = (ROOT / lock).read_text()
        assert "--hash=sha256:" in text
        assert "://" not in text, lock
    assert '"resolved"' not in (ROOT / "assets" / "package-lock.json").read_text()


def test_every_variable_that_the_settings_read_is_in_the_readme() -> None:
    settings = "".join(path.read_text() for path in (ROOT / "aistation" / "settings").glob("*.py"))
    read = set(re.findall(r'"(AISTATION_[A-Z_]+)"', settings))
    assert not {name for name in read if f"`{name}`" not in (ROOT / "README.md").read_text()}
