"""``meter``: a minute of metering for 100,000 running jobs, against bare statements that write as many rows."""

from __future__ import annotations

import json

from bench.report import Report, median, size, spread
from bench.stage import DATABASE, stage
from gpunex.embedded import APP_ROLE

JOBS = 100_000
_PLAIN_TABLE = f"""
CREATE TABLE bench_usagewindow (LIKE marketplace_usagewindow INCLUDING ALL);
GRANT SELECT, INSERT, UPDATE ON bench_usagewindow TO {APP_ROLE};
ALTER TABLE bench_usagewindow OWNER TO gpunex_owner;
GRANT SELECT, INSERT, UPDATE ON bench_usagewindow TO {APP_ROLE};
"""
"""Same columns, index and check. Not partitioned, and nobody is asked what evidence there is."""


def meter() -> Report:
    jobs = size(JOBS)
    with stage() as on:
        with on.postgres.cursor(DATABASE) as cursor:
            cursor.execute(_PLAIN_TABLE)
        code = f"from bench.rentals import measure; measure({jobs})"
        found = json.loads(on.python("manage.py", "shell", "-v0", "-c", code))
    kinds = {kind: [each["ours"] / each["baseline"] for each in found[kind]] for kind in ("updates", "inserts")}
    ratios = {kind: median(values) for kind, values in kinds.items()}
    worst = max(ratios, key=lambda kind: ratios[kind])
    return Report(
        name="meter",
        value=round(ratios[worst], 3),
        unit="ratio",
        aim="<= 3",
        work=f"a minute of {jobs:,} running jobs, the worse of a minute within a quarter and one that opens the next",
        baseline="one bare UPDATE, or INSERT … SELECT, of as many rows",
        rounds=[*found["updates"], *found["inserts"]],
        detail={
            "within_a_quarter": round(ratios["updates"], 3),
            "opens_a_quarter": round(ratios["inserts"], 3),
            "spread": round(spread(kinds[worst]), 3),
            "minute_seconds": round(median([each["ours"] for each in found["updates"]]), 3),
            "posting_seconds": round(found["posting_seconds"], 1),
            "posted_per_second": round(found["posted"] / found["posting_seconds"]),
            "holds_renewed": found["renewed"],
            "renewing_seconds": round(found["renewing_seconds"], 1),
        },
        conditions=(found["posted"] == jobs, found["renewed"] > 0, found["sound"] == []),
    )
