"""The Chinese texts: all of them, and with the same numbers in them."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from django.utils.translation import gettext, override

from aistation.portal import words
from aistation.tenancy.models import User
from tests.factories.work import submitted
from tests.factories.world import Site

ROOT = Path(__file__).resolve().parent.parent.parent.parent
CATALOGUE = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
_QUOTED = r'(?:"(?:[^"\\]|\\.)*"\s*)+'
ENTRY = re.compile(rf"msgid (?P<id>{_QUOTED})(?:msgid_plural [^\n]+\n)?msgstr(?:\[0\])? (?P<text>{_QUOTED})")
HOLES = re.compile(r"%\([a-z_]+\)s|\{[a-z_]+\}")


def entries() -> list[tuple[str, str]]:
    text = CATALOGUE.read_text(encoding="utf-8")
    live = "\n\n".join(block for block in text.split("\n\n") if "#~" not in block)
    found = [(_joined(match["id"]), _joined(match["text"])) for match in ENTRY.finditer(live)]
    return [(source, text) for source, text in found if source]


def _joined(quoted: str) -> str:
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', quoted))


def test_every_text_has_its_chinese() -> None:
    assert len(entries()) > 300
    assert [source for source, text in entries() if not text] == []
    assert "fuzzy" not in CATALOGUE.read_text(encoding="utf-8")


def test_no_number_is_lost_in_translation() -> None:
    for source, text in entries():
        assert sorted(set(HOLES.findall(source))) == sorted(set(HOLES.findall(text))), source


@pytest.mark.parametrize("table", [words.STATES, words.END_REASONS, words.PENDING_REASONS, words.EVENTS, words.ROLES])
def test_every_code_has_a_word_in_both_languages(table: dict[str, object]) -> None:
    for code, word in table.items():
        assert str(word)
        with override("zh-hans"):
            assert re.search(r"[\u4e00-\u9fff]", str(word)), code


@pytest.mark.django_db
def test_pages_are_chinese_when_that_is_chosen(site: Site, browser_of: Callable[[User], Client]) -> None:
    job = submitted(site)
    browser = browser_of(site.user)
    browser.post("/look", {"language": "zh-hans"})
    with override("zh-hans"):
        jobs, queue = gettext("Jobs"), gettext("Queue")
    for path in ("/", "/jobs", "/jobs/new", f"/jobs/{job.uid}", "/environments/new", "/queue", "/profile"):
        page = browser.get(path).content.decode()
        assert f">{jobs}</span>" in page
        assert f">{queue}</span>" in page
        for english in ("Submit", "Priority", "waiting", "Asks for"):
            assert english not in re.sub(r"<[^>]+>", "", page), path
