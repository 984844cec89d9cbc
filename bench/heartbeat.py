"""``heartbeat``: agents' syncs in which nothing changed, through the real server, against a view that does nothing."""

from __future__ import annotations

import json
import time
from typing import Any

from agent_protocol.messages import GpuTelemetry, SyncRequest
from agent_protocol.version import AGENT_VERSION, PROTOCOL
from bench.load import SEQUENCE, SEQUENCE_DIGITS, measure
from bench.report import Report, median, spread
from bench.stage import stage, web

MACHINES = 800
GPUS = 2
ROUNDS = 5
SECONDS = 4.0
WARM_SECONDS = 5.0
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
            syncs = [_sync(port, machine) for machine in machines]
            nothing = [_get(port, "/healthz")]
            measure(port, nothing, seconds=WARM_SECONDS)
            measure(port, syncs, seconds=WARM_SECONDS)
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


def _sync(port: int, machine: dict[str, Any]) -> bytes:
    message = SyncRequest(
        protocol=PROTOCOL,
        sequence=1,
        boot_id=machine["boot_id"],
        agent_version=AGENT_VERSION,
        plan_version=machine["plan_version"],
        degraded=(),
        inventory_digest=machine["inventory_digest"],
        inventory=None,
        telemetry=tuple(
            GpuTelemetry(
                uuid=uuid,
                utilization_percent=12.5,
                memory_used_bytes=2**30,
                temperature_c=41.0,
                power_w=88.0,
                sm_clock_mhz=1410,
                memory_clock_mhz=1593,
                foreign_processes=0,
            )
            for uuid in machine["gpus"]
        ),
        attempts=(),
        benchmarks=(),
    )
    body = json.dumps(message.to_dict() | {"sequence": SEQUENCE.decode()}).replace(
        f'"{SEQUENCE.decode()}"', SEQUENCE.decode()
    )
    length = len(body) - len(SEQUENCE) + SEQUENCE_DIGITS
    head = (
        f"POST /agent/v1/sync HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {machine['credential']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    return (head + body).encode()


def _get(port: int, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
