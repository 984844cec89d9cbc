"""``python -m tour.deposit --data DIR``: Ravi's first deposit of the demo, through the door every customer uses.

bin/start runs it once its hosts are on their way; a Ravi who has money is left alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import httpx

from tour.guide import Guide
from tour.steps import deposit
from tour.visitor import NotSeen


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tour.deposit")
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        guide = Guide.of(None, options.data)
        if guide.visitor("ravi").api("billing/history")["history"]:
            return 0
        deposit(guide)
    except (NotSeen, httpx.HTTPError) as error:
        print(f"Ravi's deposit: {error}", file=sys.stderr)
        return 1
    for line in guide.said:
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
