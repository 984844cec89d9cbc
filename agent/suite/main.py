"""The suite's command line.

    measure   figures, then the challenge: prints `ready`, waits for start.json in the workspace, answers it, prints the
              roots, waits for openings.json, prints the openings
    deliver   writes one of those files into the workspace; run beside `measure`, which can be reached in no other way

Every line on standard output is a JSON object with an `event`. Exit code 0: done; 1: an event `failed` says why.
"""

import argparse
import json
import os
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.suite import SUITE_VERSION
from agent.suite.backends import Backend, SuiteFailed, backend_make, failure_of
from agent.suite.chain import Chain, chain_compute
from agent.suite.metrics import QUICK, effort_of, figures
from agent.suite.nvml import Circumstances
from agent_protocol.challenge import MAX_N, work_flops

START, OPENINGS = "start.json", "openings.json"
FILES = (START, OPENINGS)
MAX_ROUNDS = 1024
_LOOK_EVERY_S = 0.01


def say(event: str, **values: Any) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except Exception as error:
        # Whatever a library or a driver raises ends here: the agent reads a reason code, the log keeps the words.
        print(f"{type(error).__name__}: {error}"[:2000], file=sys.stderr)
        say("failed", reason=failure_of(error))
        return 1
    say("done")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent.suite", description="Measures one GPU.")
    commands = parser.add_subparsers(required=True)
    measure = commands.add_parser("measure")
    measure.add_argument("--workspace", type=Path, required=True)
    measure.add_argument("--suite-version", type=int, default=SUITE_VERSION)
    measure.add_argument("--nonce", required=True)
    measure.add_argument("--n", type=int, required=True)
    measure.add_argument("--rounds", type=int, required=True)
    measure.add_argument("--gpu")
    measure.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    measure.add_argument("--backend", choices=("torch", "numpy"), default="torch")
    measure.add_argument("--wait-s", type=float, default=300.0, help="patience for each file")
    measure.add_argument("--quick", action="store_true", help="tests: hardly measure anything")
    measure.set_defaults(command=_measure)
    deliver = commands.add_parser("deliver")
    deliver.add_argument("--workspace", type=Path, required=True)
    deliver.add_argument("name", choices=FILES)
    deliver.add_argument("content")
    deliver.set_defaults(command=_deliver)
    return parser


def _deliver(options: argparse.Namespace) -> None:
    """Whole or not at all: whoever waits for the file must not read half of it."""
    json.loads(options.content)
    target: Path = options.workspace / options.name
    half = target.with_suffix(f".{os.getpid()}")
    half.write_text(options.content)
    half.replace(target)


def _measure(options: argparse.Namespace) -> None:
    if options.suite_version != SUITE_VERSION or not 1 <= options.n <= MAX_N or not 1 <= options.rounds <= MAX_ROUNDS:
        raise SuiteFailed("unsupported_suite")
    backend = backend_make(options.backend, options.device)
    say("device", device=backend.device, name=backend.name, memory_bytes=backend.memory_bytes())
    circumstances = Circumstances(options.gpu if backend.device == "cuda" else None)
    _warm_up(backend, options)
    with circumstances.watched():
        for number, figure in enumerate(figures(backend, QUICK if options.quick else effort_of(backend))):
            say("figure", **asdict(figure))
            say("progress", percent=20 + 10 * number)
    say("circumstances", **circumstances.told())
    chain = _answer(backend, options)
    wanted = _wait(options, OPENINGS)
    for number, row in [(int(number), int(row)) for number, row in wanted["openings"]]:
        leaf, path = chain.opening(number, row)
        say("opening", round=number, row=row, leaf=leaf.hex(), path=[each.hex() for each in path])


def _warm_up(backend: Backend, options: argparse.Namespace) -> None:
    """Libraries load their kernels at the first use: once through the chain's own sizes, so that no round pays for it."""
    chain_compute(backend, nonce="warm-up", seed="00", n=options.n, rounds=1)
    backend.release()


def _answer(backend: Backend, options: argparse.Namespace) -> Chain:
    say("ready", precision=backend.precisions[0], flops=work_flops(options.n, options.rounds))
    seed = str(_wait(options, START)["seed"])
    if not re.fullmatch(r"([0-9a-f]{2}){1,64}", seed):
        raise SuiteFailed("unknown")
    started = time.perf_counter()
    chain = chain_compute(backend, nonce=options.nonce, seed=seed, n=options.n, rounds=options.rounds)
    say(
        "chain",
        roots=[root.hex() for root in chain.roots],
        product_s=chain.product_s,
        total_s=time.perf_counter() - started,
    )
    return chain


def _wait(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """The file's object, once it is there. Raises SuiteFailed `time_limit`."""
    path: Path = options.workspace / name
    deadline = time.monotonic() + options.wait_s
    while time.monotonic() < deadline:
        try:
            found: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            time.sleep(_LOOK_EVERY_S)
        else:
            return found
    raise SuiteFailed("time_limit")
