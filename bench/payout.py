"""``payout``: 10,000 payouts from plan to settled on the localnet, against signing and sending alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from bench.report import Report, median, size, spread
from bench.stage import DATABASE, Stage, running, stage
from gpunex.embedded import free_port
from gpunex.starter.services import localnet_facts

PAYOUTS = 10_000
FEWER = 10
"""The first pay day pays one in so many: what it took in memory is what the large one is held against."""
FLAT_KIB = 32 * 1024
"""More than chunks and caches differ by, and less than ten thousand rows held at once would take."""


def payout() -> Report:
    payouts = size(PAYOUTS)
    few = max(1, payouts // FEWER)
    with stage() as on, localnet(on) as on:
        _shell(on, f"from bench.payees import make; make({few})")
        small = json.loads(_shell(on, "from bench.payees import pay; pay(0)"))
        _shell(on, f"from bench.payees import make; make({payouts - few})")
        with on.postgres.cursor(DATABASE) as cursor:
            cursor.execute("VACUUM ANALYZE")
        large = json.loads(_shell(on, "from bench.payees import pay; pay(1)"))
    baseline = median(large["baseline"])
    ours = large["plan_seconds"] + large["release_seconds"] + large["books_seconds"]
    grown = large["peak_kib"] - small["peak_kib"]
    parts = ("plan_seconds", "release_seconds", "books_seconds", "chain_seconds")
    return Report(
        name="payout",
        value=round(ours / baseline, 3),
        unit="ratio",
        aim="<= 1",
        work=f"plan, release and books of {payouts:,} payouts, without what the nodes and the signer took",
        baseline="signing and sending as many payments, and nothing else",
        rounds=[{"ours": ours, "baseline": each} for each in large["baseline"]],
        detail={
            **{name: round(large[name], 2) for name in parts},
            "baseline_seconds": round(baseline, 2),
            "spread": round(spread(large["baseline"]), 3),
            "passes": large["passes"],
            "memory_growth_kib": grown,
            "peak_kib": large["peak_kib"],
        },
        conditions=(
            large["payouts"] == large["settled"] == payouts,
            grown <= FLAT_KIB,
            small["sound"] == [] and large["sound"] == [],
        ),
    )


@contextmanager
def localnet(on: Stage) -> Iterator[Stage]:
    """The stage with a local Solana network beside it."""
    port, second = free_port(), free_port()
    url = f"http://127.0.0.1:{port}"
    data = str(on.folder / "localnet")
    command = (sys.executable, "-m", "billing.chain.localnet", "--data", data)
    with running(on, "localnet", *command, "--port", str(port), "--second-port", str(second)) as process:
        process.wait_until(lambda: localnet_facts(url) is not None)
        facts = localnet_facts(url) or {}
        chain = {
            "SOLANA_RPC_URL": url,
            "SOLANA_SECOND_RPC_URL": f"http://127.0.0.1:{second}",
            "SOLANA_GENESIS_HASH": facts["genesis_hash"],
            "SOLANA_USDC_MINT": facts["mint"],
            "SOLANA_VAULT_OWNER": facts["vault_owner"],
            "SOLANA_HOT_WALLET": facts["hot_wallet"],
            "SOLANA_HOT_WALLET_KEY_FILE": facts["hot_wallet_key"],
        }
        yield replace(on, environment=on.environment | chain)


def _shell(on: Stage, code: str) -> str:
    return on.python("manage.py", "shell", "-v0", "-c", code)
