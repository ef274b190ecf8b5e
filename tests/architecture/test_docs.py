"""What the documents name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_CODE = re.compile(r"`([A-Za-z0-9_.*/-]+)`")
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#]+)")
_TOP = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_and_link_of_a_document_exists(document: Path) -> None:
    text = document.read_text()
    missing = [link for link in _LINK.findall(text) if not (document.parent / link).exists()]
    for named in _CODE.findall(text):
        if "/" in named and named.split("/")[0] in _TOP and not list(ROOT.glob(named.rstrip("/"))):
            missing.append(named)
    assert missing == []
