"""``ledger``: usage charges by eight writers, all laws on, against the same rows by plain INSERT."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from bench.report import Report, median, spread
from bench.stage import DATABASE, ROOT, Stage, stage
from gpunex.embedded import APP_ROLE

WRITERS = 8
CUSTOMERS, PROVIDERS = 2000, 100
ROUNDS = 5
SECONDS = 4.0
WARM_SECONDS = 2.0
_PLAIN_TABLES = f"""
CREATE TABLE bench_transfer (LIKE billing_transfer INCLUDING ALL);
CREATE TABLE bench_posting (LIKE billing_posting INCLUDING ALL);
CREATE TABLE bench_earningline (LIKE billing_earningline INCLUDING ALL);
GRANT SELECT, INSERT ON bench_transfer, bench_posting, bench_earningline TO {APP_ROLE};
"""
"""Same columns and indexes; no triggers, no foreign keys, and nobody keeps a balance."""


def ledger() -> Report:
    with stage() as on:
        with on.postgres.cursor(DATABASE) as cursor:
            cursor.execute(_PLAIN_TABLES)
        make = f"from bench.writers import make; make({CUSTOMERS}, {PROVIDERS})"
        parties = on.python("manage.py", "shell", "-v0", "-c", make)
        rounds = []
        for kind in ("ours", "plain"):
            _written(on, kind, parties, WARM_SECONDS)
        for _ in range(ROUNDS):
            plain = _written(on, "plain", parties, SECONDS)
            rounds.append({"ours": _written(on, "ours", parties, SECONDS), "baseline": plain})
        sound = on.python("manage.py", "shell", "-v0", "-c", _SOUND)
    ratios = [each["ours"] / each["baseline"] for each in rounds]
    return Report(
        name="ledger",
        value=round(median(ratios), 3),
        unit="ratio",
        aim=">= 0.45",
        work=f"usage transfers in batches of 50, {WRITERS} writers, {CUSTOMERS} customers, {PROVIDERS} providers",
        baseline="the same columns, indexes, batches and commits by plain INSERT",
        rounds=rounds,
        detail={
            "transfers_per_second": round(median([each["ours"] for each in rounds])),
            "baseline_per_second": round(median([each["baseline"] for each in rounds])),
            "spread": round(spread(ratios), 3),
        },
        conditions=(sound == "[]",),
    )


_SOUND = """
import sys
from billing.selectors.integrity import CHECKS
sys.stdout.write(str([finding for name, check in CHECKS.items() for finding in check()]))
"""


def _written(on: Stage, kind: str, parties: str, seconds: float) -> float:
    """Transfers per second of all writers together."""
    command = [sys.executable, "-m", "bench.writers", kind, str(seconds)]
    options: dict[str, Any] = {"cwd": ROOT, "env": on.environment, "text": True}
    writers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options) for _ in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdin is not None and writer.stdout is not None
        writer.stdin.write(parties + "\n")
        writer.stdin.flush()
        writer.stdout.readline()  # it is ready
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    total = 0.0
    for writer in writers:
        output, _ = writer.communicate()
        if writer.returncode != 0:
            raise RuntimeError(f"a writer ended with {writer.returncode}")
        total += json.loads(output)["per_second"]
    return total
