"""Each import contract is shown to bite: a tree shaped like ours passes, the same tree with one bad import does not.

The tree holds our modules as empty files, under our own .importlinter; only the planted line differs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.layers import CONFIGURATION, ROOT, contracts, root_packages

VIOLATIONS: dict[str, tuple[str, str]] = {
    # contract: (module that gets the line, the line)
    "apps": ("core/money.py", "import billing.services"),
    "inside": ("providers/selectors/__init__.py", "import providers.services"),
    "money": ("providers/services/__init__.py", "import billing.models"),
    "agent": ("agent/__init__.py", "import core.money"),
    "suite": ("agent/suite/main.py", "import agent.client"),
    "server-not-agent": ("providers/services/__init__.py", "import agent"),
    "domain-no-http": ("core/states.py", "import rest_framework"),
    "solana": ("gpunex/health.py", "import solders"),
    "acyclic": ("core/money.py", "import core.planted"),
}
COMPANIONS = {"acyclic": ("core/planted.py", "import core.money")}
"""A second planted file, where one line cannot break the contract."""


@pytest.fixture(scope="module")
def empty_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree")
    for package in root_packages():
        for path in (ROOT / package).rglob("*.py"):
            target = tree / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
    shutil.copy(CONFIGURATION, tree / ".importlinter")
    return tree


def lint(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", *options]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def test_the_tree_without_a_planted_import_keeps_every_contract(empty_tree: Path) -> None:
    result = lint(empty_tree)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_contract_has_a_planted_violation() -> None:
    assert set(VIOLATIONS) == set(contracts())


@pytest.mark.parametrize("contract", sorted(VIOLATIONS))
def test_a_planted_import_breaks_the_contract(contract: str, empty_tree: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(empty_tree, tree)
    for name, line in filter(None, (VIOLATIONS[contract], COMPANIONS.get(contract))):
        (tree / name).write_text(line + "\n")
    result = lint(tree, "--contract", contract)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "BROKEN" in result.stdout, result.stdout + result.stderr
