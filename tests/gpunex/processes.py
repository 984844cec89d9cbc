"""Our own server processes, started for a test against the tests' PostgreSQL and Valkey."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from gpunex.embedded import Process, free_port
from tests.services import ROOT

GRANIAN = str(Path(sys.executable).with_name("granian"))


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def served(name: str, *arguments: str, log: Path, path: str = "/healthz", **environment: str) -> Iterator[str]:
    """A granian server on a free port; yields its address once ``path`` answers 200."""
    port = free_port()
    process = Process(name, log)
    command = [GRANIAN, "--host", "127.0.0.1", "--port", str(port), "--no-ws", *arguments]
    process.start(command, environment=os.environ | environment, cwd=ROOT)
    url = f"http://127.0.0.1:{port}"
    try:
        process.wait_until(lambda: answers(url + path))
        yield url
    finally:
        process.stop()


def doorbell(log: Path, **environment: str):  # type: ignore[no-untyped-def]
    return served("doorbell", "--interface", "asgi", "--factory", "gpunex.doorbell:application", log=log, **environment)


def web(log: Path, **environment: str):  # type: ignore[no-untyped-def]
    options = ["--interface", "wsgi", "--blocking-threads", "4", "--backpressure", "64"]
    return served("web", *options, "gpunex.wsgi:application", log=log, **environment)
