"""`python -m billing.chain.localnet --data DIR --port P`: prints one JSON line when ready, stops on SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from billing.chain.errors import ChainError
from billing.chain.localnet.cluster import Finality
from billing.chain.localnet.runner import RunningLocalnet
from billing.chain.localnet.store import FolderInUse, JournalDamaged

# Short for people who watch: a deposit is final after 4 blocks of 400 ms. Mainnet takes 32 and about 13 seconds.
DEMO_CONFIRMED, DEMO_FINALIZED = 1, 4


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m billing.chain.localnet", description="A local Solana network.")
    parser.add_argument("--data", type=Path, required=True, help="data folder: keys and journal")
    parser.add_argument("--port", type=int, default=0, help="JSON-RPC on 127.0.0.1; 0 picks a free one (default)")
    parser.add_argument("--second-port", type=int, default=0, help="the second endpoint; 0 picks a free one (default)")
    parser.add_argument("--block-ms", type=int, default=400, help="time between blocks; 0: only on /control tick")
    parser.add_argument("--confirmed-after", type=int, default=DEMO_CONFIRMED, metavar="BLOCKS")
    parser.add_argument("--finalized-after", type=int, default=DEMO_FINALIZED, metavar="BLOCKS")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        finality = Finality(options.confirmed_after, options.finalized_after)
        running = RunningLocalnet(
            options.data,
            finality=finality,
            port=options.port,
            second_port=options.second_port,
            block_milliseconds=options.block_ms,
        )
    except (ChainError, FolderInUse, JournalDamaged, OSError, ValueError) as error:
        sys.stderr.write(f"localnet: {error}\n")
        return 1
    with running:
        sys.stdout.write(json.dumps(running.facts()) + "\n")
        sys.stdout.flush()
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
