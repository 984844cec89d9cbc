"""Payouts under torture: some rounds in every run, hundreds in a deep one; and it finds what it is there to find."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from billing.management.torture.stage import TortureRefused, stage
from core import clock
from tests.factories.cast import person
from tests.services import ROOT

PATIENCE_SECONDS = 900
DEEP_SECONDS = 3600
SEED = 7


def torture(folder: Path, *, first: int = 0, rounds: int, guard: str = "none") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.billing.torture_worker"]
    return subprocess.run(
        [*command, str(folder / "torture"), str(SEED), str(first), str(rounds), guard],
        cwd=ROOT,
        env=os.environ | {"PROCESS": "worker", "LOG_LEVEL": "CRITICAL"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_whatever_dies_everybody_is_paid_once(committed_db: str, tmp_path: Path) -> None:
    done = torture(tmp_path, rounds=3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 rounds of seed 7" in done.stdout
    assert "workers were killed" in done.stdout and "\n0 workers" not in done.stdout


def test_a_guard_that_is_taken_away_is_missed(committed_db: str, tmp_path: Path) -> None:
    """Without the proof of expiry a payout is signed anew while the first transaction may still land."""
    done = torture(tmp_path, first=1, rounds=200, guard="proof_of_expiry")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"is on chain [2-9] times", done.stdout) and f"--seed {SEED} --first" in done.stdout


def test_it_hurts_nothing_that_is_used_or_no_demo(committed_db: str, tmp_path: Path, settings: Any) -> None:
    person("Ada")
    with pytest.raises(TortureRefused, match="it holds Party"), stage(tmp_path, now=clock.now()):
        pass
    settings.DEMO = False
    with pytest.raises(TortureRefused, match="DEMO"), stage(tmp_path, now=clock.now()):
        pass
    with pytest.raises(CommandError, match="DEMO"):
        call_command("torture_payouts", "--rounds", "1")


@pytest.mark.deep
def test_hundreds_of_rounds_on_a_database_of_its_own() -> None:
    command = [sys.executable, "-W", "ignore", "manage.py", "torture_payouts", "--rounds", "300", "--seed", str(SEED)]
    environment = os.environ | {"PROCESS": "worker", "LOG_LEVEL": "CRITICAL"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=DEEP_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 rounds of seed 7" in done.stdout
