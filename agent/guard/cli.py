"""Command line of the guard."""

import argparse
import logging
import re
import signal
import sys
import threading
from pathlib import Path

from agent.guard.engine import Engine
from agent.guard.policy import GPU, Policy
from agent.guard.server import GuardServer
from agent.journal import journal_start
from agent_protocol.images import ALLOWED_REGISTRIES, ImageReference, ImageRefused, image_parse

DEFAULT_SOCKET = Path("/run/gpunex/guard.sock")
DEFAULT_ENGINE = Path("/var/run/docker.sock")
_REGISTRY = re.compile(r"[a-z0-9.-]+(?::[0-9]{1,5})?")

# Of sysexits.h: it may work the next time. Whoever watches over the guard starts it again.
_ENGINE_AWAY = 75

log = logging.getLogger("guard")


def main(arguments: list[str]) -> int:
    """0 when stopped on request, 2 for wrong options or a socket that cannot be made, 75 when the engine stays away."""
    options = _parser().parse_args(arguments)
    journal_start(options.log_level)
    policy = Policy(
        gpus=options.gpus,
        images=frozenset(options.allow_image),
        registries=ALLOWED_REGISTRIES | frozenset(options.allow_registry),
        networks=options.job_network == "bridge",
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        stopped = GuardServer(options.socket, Engine(str(options.engine)), policy).serve(stop)
    except OSError as error:
        print(f"gpunex-guard: --socket: found {options.socket} ({error}), allowed: a new socket", file=sys.stderr)
        return 2
    return 0 if stopped else _ENGINE_AWAY


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpunex-guard", description="Stands between the agent and Docker Engine.")
    parser.add_argument("--socket", type=Path, default=DEFAULT_SOCKET, help="where the agent finds the guard")
    parser.add_argument("--engine", type=Path, default=DEFAULT_ENGINE, help="the engine's socket")
    parser.add_argument("--gpus", type=_gpus, default=None, help="all, or UUIDs separated by commas: what is offered")
    parser.add_argument("--allow-registry", action="append", default=[], type=_registry, help="one more registry")
    parser.add_argument("--allow-image", action="append", default=[], type=_image, help="one image, by digest")
    parser.add_argument("--job-network", choices=("none", "bridge"), default="none", help="network of jobs")
    parser.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    return parser


def _gpus(text: str) -> frozenset[str] | None:
    if text == "all":
        return None
    uuids = [uuid.strip() for uuid in text.split(",") if uuid.strip()]
    for uuid in uuids:
        if not GPU.fullmatch(uuid):
            raise argparse.ArgumentTypeError(f"found {uuid!r}, allowed: all, or UUIDs of GPUs separated by commas")
    return frozenset(uuids)


def _image(text: str) -> ImageReference:
    """By digest, from whatever registry stands in it."""
    try:
        reference = image_parse(text, allowed_registries=ALLOWED_REGISTRIES | {text.partition("/")[0]})
    except ImageRefused:
        reference = None
    if reference is None or reference.digest is None:
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed: an image by digest, like registry/name@sha256:…")
    return reference


def _registry(text: str) -> str:
    if not _REGISTRY.fullmatch(text):
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed: a registry's host name, with a port if need be")
    return text
