from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from bench.fleet import fleet
from bench.heartbeat import heartbeat
from bench.ledger import ledger
from bench.report import Report
from bench.start import start

BENCHMARKS: dict[str, Callable[[], Report]] = {"heartbeat": heartbeat, "fleet": fleet, "start": start, "ledger": ledger}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write one JSON object per benchmark, a line each")
    options = parser.parse_args()
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
