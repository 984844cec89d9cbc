"""``heartbeat``: agents' syncs in which nothing changed, through the real server, against a view that does nothing."""

from __future__ import annotations

import json
import time

from bench.load import measure
from bench.report import Report, median, spread
from bench.stage import stage, web
from bench.syncs import get_request, sync_request

MACHINES = 800
GPUS = 2
ROUNDS = 5
SECONDS = 4.0
WARM_SECONDS = 5.0
WARM_SYNCS = 6 * MACHINES
"""A machine's first sync records its session, whose ring makes the second ask anew; from the third on nothing changes."""
STATISTICS_SECONDS = 11.0
"""PostgreSQL tells an idle connection's last transactions after ten seconds: those of the warm-up must not count."""
BACKGROUND_SQL = 0.001
"""A sync costs none; what is seen is the process's own comparison every ten seconds, for all machines at once."""


def heartbeat() -> Report:
    with stage() as on:
        machines = json.loads(
            on.python("manage.py", "shell", "-v0", "-c", f"from bench.machines import make; make({MACHINES}, {GPUS})")
        )
        with web(on) as port:
            syncs = [sync_request(port, machine) for machine in machines]
            nothing = [get_request(port, "/healthz")]
            measure(port, nothing, seconds=WARM_SECONDS)
            warm = 0.0
            while warm < WARM_SYNCS:
                warm += measure(port, syncs, seconds=WARM_SECONDS)["per_second"] * WARM_SECONDS
            time.sleep(STATISTICS_SECONDS)
            rounds, transactions, syncs_done = [], 0, 0.0
            for _ in range(ROUNDS):
                baseline = measure(port, nothing, seconds=SECONDS)
                before = on.transactions()
                ours = measure(port, syncs, seconds=SECONDS)
                transactions += on.transactions() - before
                syncs_done += ours["per_second"] * SECONDS
                rounds.append(
                    {"ours": ours["per_second"], "baseline": baseline["per_second"], "p50_ms": ours["p50_ms"]}
                )
    ratios = [each["ours"] / each["baseline"] for each in rounds]
    sql_per_sync = transactions / syncs_done
    return Report(
        name="heartbeat",
        value=round(median(ratios), 3),
        unit="ratio",
        aim=">= 0.5",
        work=f"syncs of {MACHINES} machines with {GPUS} GPUs, nothing changed; one worker, 4 threads",
        baseline="GET /healthz, same server and middleware",
        rounds=rounds,
        detail={
            "syncs_per_second": round(median([each["ours"] for each in rounds])),
            "baseline_per_second": round(median([each["baseline"] for each in rounds])),
            "spread": round(spread(ratios), 3),
            "sql_transactions_per_sync": round(sql_per_sync, 6),
        },
        conditions=(sql_per_sync < BACKGROUND_SQL,),
    )
