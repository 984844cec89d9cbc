"""Payouts under torture: some rounds in every run, hundreds in a deep one; and it finds what it is there to find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services import ROOT

PATIENCE_SECONDS = 600
SEED = 7


def torture(folder: Path, rounds: int, guard: str = "none", **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.billing.torture_worker"]
    return subprocess.run(
        [*command, str(folder / "torture"), str(SEED), str(rounds), guard],
        cwd=ROOT,
        env=os.environ | {"PROCESS": "worker", "DEMO": "1", "LOG_LEVEL": "CRITICAL"} | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_whatever_dies_everybody_is_paid_once(committed_db: str, tmp_path: Path) -> None:
    done = torture(tmp_path, rounds=4)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 rounds of seed 7" in done.stdout
    assert "workers were killed" in done.stdout and "  0 workers" not in done.stdout


@pytest.mark.parametrize(
    ("guard", "finding"),
    [
        ("proof_of_expiry", "is on chain 2 times"),
        ("written_before_sent", "is on chain 2 times"),
        ("finality", "is on chain 0 times"),
    ],
)
def test_a_guard_that_is_taken_away_is_missed(committed_db: str, tmp_path: Path, guard: str, finding: str) -> None:
    done = torture(tmp_path, rounds=200, guard=guard)
    assert done.returncode == 1, done.stdout + done.stderr
    assert finding in done.stdout and f"--seed {SEED} --first" in done.stdout
