"""The speed of the line to the platform: several streams of random bytes each way, counted by whoever receives them."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from agent.bench.base import BenchmarkRefused, Cancelled
from agent.bench.suite import HostFigures
from agent.client import ClientError
from agent_protocol.messages import MAX_BLOB_BYTES, BenchDownload, BenchmarkPlan

STREAMS = 4
"""One connection seldom fills a fast line over a long way."""
SECONDS = 10.0
MOST_BYTES = 2 * 10**9
FIRST_BYTES = 1024 * 1024
GROW_BELOW_S = 1.0
"""A transfer that took less is doubled: a slow line must not spend minutes in one, nor a fast one its time on round trips."""


class Line(Protocol):
    """The platform's side (agent.client.PlatformClient). All raise ClientError."""

    def bench_download(self, run_id: str, wanted: BenchDownload) -> int:
        """How many bytes arrived here."""

    def bench_upload(self, run_id: str, nonce: str, content: bytes) -> int:
        """How many bytes arrived there."""

    def latency_ms(self) -> float | None:
        """Median round trip of the last syncs; null before the first."""


class NetworkMeasure:
    def __init__(self, line: Line, *, seconds: float = SECONDS) -> None:
        self._line = line
        self._seconds = seconds

    def measure(self, plan: BenchmarkPlan, cancelled: Cancelled) -> HostFigures:
        found = HostFigures()
        nonce = plan.challenge.nonce
        content = os.urandom(MAX_BLOB_BYTES)

        def down(size: int) -> int:
            return self._line.bench_download(plan.run_id, BenchDownload(nonce=nonce, size_bytes=size))

        def up(size: int) -> int:
            return self._line.bench_upload(plan.run_id, nonce, content[:size])

        for name, transfer in (("network_down_mbps", down), ("network_up_mbps", up)):
            rate = _Transfers(transfer, self._seconds, cancelled).rate_mbps()
            if rate is None:
                found.unmeasured[name] = "unreachable"
            else:
                found.metrics[name] = rate
            if cancelled(0):
                raise BenchmarkRefused("interrupted")
        latency = self._line.latency_ms()
        if latency is None:
            found.unmeasured["latency_ms"] = "no_sync_yet"
        else:
            found.metrics["latency_ms"] = latency
        return found


class _Transfers:
    """Streams side by side until time or volume is used up, or the platform says it is enough."""

    def __init__(self, transfer: Callable[[int], int], seconds: float, cancelled: Cancelled) -> None:
        self._transfer = transfer
        self._seconds = seconds
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._bytes = 0
        self._last = 0.0
        self._started = 0.0

    def rate_mbps(self) -> float | None:
        """10⁶ bits per second from the start to the last arrival; null when nothing arrived."""
        self._started = time.monotonic()
        with ThreadPoolExecutor(STREAMS) as pool:
            for stream in [pool.submit(self._stream) for _ in range(STREAMS)]:
                stream.result()
        if self._bytes == 0:
            return None
        return self._bytes * 8 / 1e6 / max(self._last - self._started, 1e-6)

    def _stream(self) -> None:
        size = FIRST_BYTES
        while time.monotonic() - self._started < self._seconds and self._bytes < MOST_BYTES:
            if self._cancelled(0):
                return
            before = time.monotonic()
            try:
                arrived = self._transfer(size)
            except ClientError:
                # A broken line, or the platform's own bound: what has arrived so far is the answer.
                return
            now = time.monotonic()
            with self._lock:
                self._bytes += arrived
                self._last = max(self._last, now)
            if now - before < GROW_BELOW_S:
                size = min(2 * size, MAX_BLOB_BYTES)
