"""The suite's command line: three short runs, each in a container of its own that needs nothing but its arguments.

    figures   measures
    chain     answers a challenge: prints the root of every round
    open      makes the named rounds again, and prints leaf and path of the named rows

A container of ours can be told nothing once it runs: it has no network, and the host's guard forbids everything else. That
is why the seed comes as an argument, and why rows are opened by a run of their own.

Every line on standard output is a JSON object with an `event`. Exit code 0: done; 1: an event `failed` says why.
"""

import argparse
import json
import re
import sys
import time
from collections import defaultdict
from dataclasses import asdict
from typing import Any

from agent.suite import SUITE_VERSION
from agent.suite.backends import Backend, SuiteFailed, backend_make, failure_of
from agent.suite.chain import chain_compute, leaves_compute
from agent.suite.metrics import QUICK, effort_of, figures
from agent.suite.nvml import Circumstances
from agent_protocol.challenge import MAX_N, merkle_path

MAX_ROUNDS = 1024
_SEED = re.compile(r"[0-9a-f]{64}")
_OPENING = re.compile(r"([0-9a-f]{64}):([0-9]{1,5})")


def say(event: str, **values: Any) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.suite_version != SUITE_VERSION:
            raise SuiteFailed("unsupported_suite")
        backend = backend_make(options.backend, options.device)
        say("device", device=backend.device, name=backend.name, memory_bytes=backend.memory_bytes())
        options.command(backend, options)
    except Exception as error:
        # Whatever a library or a driver raises ends here: the agent reads a reason code, the log keeps the words.
        print(f"{type(error).__name__}: {error}"[:2000], file=sys.stderr)
        say("failed", reason=failure_of(error))
        return 1
    say("done")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent.suite", description="Measures one GPU.")
    parser.add_argument("--suite-version", type=int, default=SUITE_VERSION)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--backend", choices=("torch", "numpy"), default="torch")
    parser.add_argument("--quick", action="store_true", help="tests: hardly measure anything")
    commands = parser.add_subparsers(required=True)
    measure = commands.add_parser("figures")
    measure.add_argument("--gpu", help="UUID of the card that NVML is asked about")
    measure.set_defaults(command=_figures)
    answer = commands.add_parser("chain")
    answer.add_argument("--nonce", required=True)
    answer.add_argument("--seed", required=True)
    answer.add_argument("--n", type=int, required=True)
    answer.add_argument("--rounds", type=int, required=True)
    answer.set_defaults(command=_chain)
    opening = commands.add_parser("open")
    opening.add_argument("--n", type=int, required=True)
    opening.add_argument("openings", nargs="+", help="SEED:ROW, the seed of a round in hexadecimal")
    opening.set_defaults(command=_open)
    return parser


def _figures(backend: Backend, options: argparse.Namespace) -> None:
    circumstances = Circumstances(options.gpu if backend.device == "cuda" else None)
    with circumstances.watched():
        for number, figure in enumerate(figures(backend, QUICK if options.quick else effort_of(backend))):
            say("figure", **asdict(figure))
            say("progress", percent=100 * (number + 1) // 6)
    say("circumstances", **circumstances.told())


def _chain(backend: Backend, options: argparse.Namespace) -> None:
    _size_check(options.n)
    if not 1 <= options.rounds <= MAX_ROUNDS or not _SEED.fullmatch(options.seed):
        raise SuiteFailed("unsupported_suite")
    started = time.perf_counter()
    roots, product_s = chain_compute(
        backend, nonce=options.nonce, seed=options.seed, n=options.n, rounds=options.rounds
    )
    total_s = time.perf_counter() - started
    say("chain", roots=[root.hex() for root in roots], product_s=product_s, total_s=total_s)


def _open(backend: Backend, options: argparse.Namespace) -> None:
    _size_check(options.n)
    rows: dict[str, list[int]] = defaultdict(list)
    for text in options.openings:
        found = _OPENING.fullmatch(text)
        if found is None or int(found[2]) >= options.n:
            raise SuiteFailed("unsupported_suite")
        rows[found[1]].append(int(found[2]))
    for seed, wanted in rows.items():
        leaves = leaves_compute(backend, bytes.fromhex(seed), options.n)
        for row in wanted:
            path = [each.hex() for each in merkle_path(leaves, row)]
            say("opening", seed=seed, row=row, leaf=leaves[row].hex(), path=path)


def _size_check(n: int) -> None:
    if not 1 <= n <= MAX_N:
        raise SuiteFailed("unsupported_suite")
