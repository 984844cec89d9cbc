"""On a phone a table stacks (.table-stack in site.css), and there every cell must say which column it belongs to."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ADMIN = "/admin/"
"""Unfold's own look; it has a convention of its own for phones."""


def unlabelled(text: str) -> list[str]:
    """What is wrong with the tables of one template, one line each."""
    found = [f"does not stack: {tag}" for tag in re.findall(r"<table [^>]*>", text) if "table-stack" not in tag]
    bodies = re.findall(r"<tbody>.*?</tbody>", text, re.DOTALL)
    rows = [row for body in bodies for row in re.findall(r"<tr\b.*?</tr>", body, re.DOTALL)]
    if not bodies:  # a row of its own, included by a table
        rows = re.findall(r"<tr\b.*?</tr>", text, re.DOTALL)
    for row in rows:
        _title, *cells = re.findall(r"<t[dh]\b(?:[^>{]|{[^}]*})*>", row)
        found += [f"no data-label: {cell}" for cell in cells if "data-label=" not in cell and "stack-wide" not in cell]
    return found


def test_every_table_stacks_and_every_cell_says_what_it_is() -> None:
    templates = [path for path in sorted((ROOT / "templates").rglob("*.html")) if ADMIN not in str(path)]
    wrong = {str(path.relative_to(ROOT)): unlabelled(path.read_text()) for path in templates}
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def test_the_check_finds_what_is_missing() -> None:
    table = '<table class="table"><tbody><tr><td>a</td><td class="number">1</td></tr></tbody></table>'
    assert unlabelled(table) == ['does not stack: <table class="table">', 'no data-label: <td class="number">']
    assert unlabelled('<tr><td>a</td><td data-label="b">1</td><td class="stack-wide">c</td></tr>') == []
