"""A document that names a test names one that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.layers import ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TABLE = "## What goes wrong, and the test that shows it"


def named(text: str) -> list[tuple[str, str]]:
    """(file, test) of every ``tests/…/test_….py::name``."""
    return re.findall(r"\b(tests/[\w/]+\.py)::(\w+)", text)


def missing(text: str, root: Path = ROOT) -> list[str]:
    """The named tests that are in no file, or are no test functions of it."""
    return [f"{file}::{name}" for file, name in named(text) if name not in functions_of(root / file)]


def functions_of(file: Path) -> set[str]:
    if not file.is_file():
        return set()
    found = ast.walk(ast.parse(file.read_text()))
    return {node.name for node in found if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_test_that_a_document_names_exists() -> None:
    assert {path.name: gone for path in DOCUMENTS if (gone := missing(path.read_text()))} == {}


def test_every_fault_in_the_table_has_a_test() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().partition(TABLE)[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 18
    assert [row for row in rows if not named(row)] == []


def test_the_check_finds_a_test_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_here(): ...\ndef helper(): ...\n")
    text = "`tests/test_a.py::test_here`, `tests/test_a.py::helper`, `tests/test_a.py::test_gone`, `tests/test_b.py::test_x`"
    assert missing(text, tmp_path) == [
        "tests/test_a.py::helper",
        "tests/test_a.py::test_gone",
        "tests/test_b.py::test_x",
    ]
