"""``python -m tour``: take every step, print what was seen; the exit code is 0 only if all of it held."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx

from gpunex.starter.folder import folder_chosen
from tour.guide import Guide
from tour.steps import STEPS, put_back
from tour.visitor import NotSeen


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bin/tour", description="Walk the chain of a running demo.")
    parser.add_argument("--url", help="address of the marketplace (default: what bin/start uses)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="its data folder: log-ins and mails are read from it")
    options = parser.parse_args(arguments)
    try:
        guide = Guide.of(options.url, folder_chosen(options.data))
    except NotSeen as error:
        print(f"bin/tour: {error}", file=sys.stderr)
        return 1
    started = time.monotonic()
    for number, step in enumerate(STEPS, start=1):
        print(f"{number:2}. {' '.join((step.__doc__ or '').split())}", flush=True)
        guide.said.clear()
        failure = None
        try:
            step(guide)
        except (NotSeen, httpx.HTTPError, KeyError, StopIteration) as error:
            failure = f"{type(error).__name__}: {error}" if not isinstance(error, NotSeen) else str(error)
        for line in guide.said:
            print(f"      {line}")
        if failure is not None:
            print(f"    FAILED: {failure}", flush=True)
            with suppress(NotSeen, httpx.HTTPError, KeyError, StopIteration):
                put_back(guide)
            return 1
    print(f"All {len(STEPS)} steps held, in {time.monotonic() - started:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
