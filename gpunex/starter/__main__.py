"""``python -m gpunex.starter`` (bin/start runs it): everything up, watched, and down again without a trace."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

from gpunex.embedded import EmbeddedError
from gpunex.starter.folder import DataFolder, StartError, folder_chosen
from gpunex.starter.marketplace import Marketplace

LOOK_SECONDS = 0.25
DEFAULT_PORT = 8000


class Stopped(BaseException):
    """A signal asked us to end; raised wherever the main thread happens to be."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    started = time.monotonic()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    marketplace: Marketplace | None = None
    try:
        _port_must_be_free(options.port)
        folder = DataFolder(folder_chosen(options.data))
        folder.open(demo=options.demo)
        marketplace = Marketplace(folder, port=options.port, demo=options.demo, docker=options.docker, say=_say)
        marketplace.start()
        _say(marketplace.welcome(time.monotonic() - started))
        while True:
            time.sleep(LOOK_SECONDS)
            marketplace.watch()
    except Stopped:
        return 0
    except (StartError, EmbeddedError) as error:
        sys.stderr.write(f"bin/start: {error}\n")
        return 1
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if marketplace is not None:
            marketplace.stop()


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/start", description="Run the whole marketplace on this machine.")
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, help="web address: 127.0.0.1:PORT (default 8000)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data folder (default: var in the checkout)")
    parser.add_argument("--no-demo", dest="demo", action="store_false", help="an empty marketplace: no cast, no hosts")
    parser.add_argument("--docker", action="store_true", help="demo hosts run jobs on this machine's Docker Engine")
    options = parser.parse_args(arguments)
    if options.docker and not options.demo:
        parser.error("--docker is about the demo hosts: it does not go with --no-demo")
    if options.docker:
        _engine_must_answer(parser)
    return options


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed: 1 to 65535")
    return int(text)


def _engine_must_answer(parser: argparse.ArgumentParser) -> None:
    try:
        answer = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"], capture_output=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        parser.error("--docker: no Docker Engine answers on this machine")
    if answer.returncode != 0:
        parser.error("--docker: no Docker Engine answers on this machine")


def _port_must_be_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that are closing do not count
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError:
            raise StartError(
                f"Port {port} needs more rights than we have: choose one above 1023 with --port."
            ) from None
        except OSError:
            raise StartError(
                f"Port {port} on 127.0.0.1 is taken by another program: choose another with --port."
            ) from None


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped


def _say(text: str) -> None:
    # Whoever reads us may have gone; that must not stop the marketplace.
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
