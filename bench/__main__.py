from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from bench.fleet import fleet
from bench.heartbeat import heartbeat
from bench.ledger import ledger
from bench.meter import meter
from bench.payout import payout
from bench.report import Report
from bench.start import start

BENCHMARKS: dict[str, Callable[[], Report]] = {
    "heartbeat": heartbeat,
    "fleet": fleet,
    "start": start,
    "ledger": ledger,
    "meter": meter,
    "payout": payout,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write one JSON object per benchmark, a line each")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="part of the work of meter and payout, for a quick look"
    )
    options = parser.parse_args()
    os.environ["BENCH_SCALE"] = str(options.scale)
    unknown = sorted(set(options.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"NAME: found {', '.join(unknown)}; allowed: {', '.join(BENCHMARKS)}")
    reports = []
    for name in options.names or BENCHMARKS:
        reports.append(BENCHMARKS[name]())
        print(reports[-1].row(), flush=True)
    if options.json:
        options.json.write_text("".join(json.dumps(report.to_json()) + "\n" for report in reports))
    return 0 if all(report.ok for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
