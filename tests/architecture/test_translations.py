"""Every string for people has its Chinese, current and checked. ``bin/messages`` collects new ones."""

from __future__ import annotations

import gettext
import os
import re
import shutil
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CATALOGUE = Path("locale/zh_Hans/LC_MESSAGES/django.po")
NOT_OURS = shutil.ignore_patterns(
    ".git", ".venv", "var", ".data", "tests", "agent", "static", "__pycache__", "shared", "bench*.json"
)
COLLECT = (sys.executable, "-W", "ignore", "manage.py", "makemessages", "--locale", "zh_Hans", "--no-obsolete")
pytestmark = pytest.mark.gettext
CONTEXTS = ("date format", "of a machine")
"""Where one English word is several in Chinese."""


def messages(text: str) -> Iterator[tuple[str, list[str], bool]]:
    """(msgid, its translations, whether it is fuzzy) of a .po file's text, the header left out."""
    for block in text.split("\n\n")[1:]:
        if block.strip() and not block.startswith("#~"):
            lines = block.splitlines()
            joined = re.sub(r'"\n"', "", block)
            ids = [literal_eval(found) for found in re.findall(r'^msgid (".*")$', joined, re.MULTILINE)]
            words = [literal_eval(found) for found in re.findall(r'^msgstr(?:\[\d\])? (".*")$', joined, re.MULTILINE)]
            fuzzy = any(line.startswith("#,") and "fuzzy" in line for line in lines)
            yield ids[0], words, fuzzy


def translated(text: str) -> Iterator[tuple[str, list[str]]]:
    return ((msgid, words) for msgid, words, fuzzy in messages(text) if all(words) and not fuzzy)


def wanting(text: str) -> list[str]:
    return [msgid for msgid, words, fuzzy in messages(text) if fuzzy or not words or not all(words)]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The catalogue as it would be after collecting every string of the sources now."""
    copy = tmp_path_factory.mktemp("sources") / "gpunex"
    shutil.copytree(ROOT, copy, ignore=NOT_OURS)
    subprocess.run(
        [*COLLECT, "--no-location", "--no-wrap", "--extension", "html,py,txt", "--ignore", "requirements*"],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy)},
        check=True,
        capture_output=True,
    )
    return (copy / CATALOGUE).read_text()


def test_every_string_is_translated(collected: str) -> None:
    assert wanting(collected) == [], "run bin/messages and translate what is empty or marked fuzzy"


def test_the_catalogue_is_well_formed() -> None:
    checked = subprocess.run(
        ["msgfmt", "--check-format", "--check-domain", "-o", os.devnull, str(ROOT / CATALOGUE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_the_compiled_catalogue_is_current() -> None:
    with (ROOT / CATALOGUE).with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for msgid, words in translated((ROOT / CATALOGUE).read_text()):
        known = {compiled.gettext(msgid), compiled.ngettext(msgid, msgid, 1)}
        known |= {compiled.pgettext(context, msgid) for context in CONTEXTS}
        assert words[0] in known, f"run bin/messages: {msgid!r} is not compiled"


def test_placeholders_survive_translation() -> None:
    """msgfmt checks what xgettext marked; this checks every text with a placeholder."""
    for msgid, words in translated((ROOT / CATALOGUE).read_text()):
        named = set(re.findall(r"%\((\w+)\)", msgid))
        for word in words:
            assert set(re.findall(r"%\((\w+)\)", word)) == named, msgid


def test_a_translation_has_a_percent_sign_only_where_its_source_has_one() -> None:
    """A template fills a text by ``%``: one that the source does not have makes the whole sentence fall back to English."""
    for msgid, words in translated((ROOT / CATALOGUE).read_text()):
        assert [word for word in words if "%" in word and "%" not in msgid] == [], msgid


def test_the_check_finds_what_is_missing() -> None:
    header = 'msgid ""\nmsgstr ""\n'
    blocks = [
        'msgid "a"\nmsgstr ""',
        '#, fuzzy\nmsgid "b"\nmsgstr "B"',
        'msgid "c"\nmsgstr "C"',
        'msgid ""\n"d"\nmsgstr ""\n"D"',
    ]
    text = "\n\n".join([header, *blocks])
    assert wanting(text) == ["a", "b"]
