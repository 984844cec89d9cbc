"""Very many agents in one process: each holds its bell and syncs at its own pace, as real ones do.

    python -m bench.agents WEB_PORT BELL_PORT SECONDS SILENT < machines (JSON) > what they met (JSON)

The first SILENT of them fall silent after SILENT_AFTER_SECONDS, for good. Syncs travel over a few keep-alive connections,
as they do through a proxy; bells are a connection each.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from bench.load import SEQUENCE
from bench.syncs import get_request, sync_request

SYNC_SECONDS, SPREAD = 15.0, 0.2
CONNECTIONS = 48
SILENT_AFTER_SECONDS = 30.0
BELL_RETRY_SECONDS = 5.0

Answer = tuple[int, bytes]


@dataclass
class Fleet:
    web_port: int
    bell_port: int
    ends: float
    queue: asyncio.Queue[tuple[bytes, asyncio.Future[Answer]]] = field(default_factory=asyncio.Queue)
    waits: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    bells: int = 0
    bells_most: int = 0
    rings: int = 0
    sequence: int = field(default_factory=lambda: time.time_ns() // 1000)

    async def sender(self) -> None:
        """One keep-alive connection to the web server, used by whoever is next."""
        reader: asyncio.StreamReader | None = None
        while True:
            request, answer = await self.queue.get()
            try:
                if reader is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.web_port)
                writer.write(request)
                answer.set_result(await _answer(reader))
            except (OSError, asyncio.IncompleteReadError):
                reader = None
                answer.set_result((0, b""))

    async def agent(self, machine: dict[str, Any], *, silent: bool) -> None:
        ends = min(self.ends, time.monotonic() + SILENT_AFTER_SECONDS) if silent else self.ends
        ring, bell = asyncio.Event(), None
        await asyncio.sleep(random.uniform(0, SYNC_SECONDS))
        while time.monotonic() < ends:
            reply = await self.sync(machine)
            if reply is not None:
                machine["plan_version"] = reply["plan_version"]
                if bell is None:
                    bell = asyncio.create_task(self.listen(reply["bell"], ring))
            with suppress(TimeoutError):
                await asyncio.wait_for(ring.wait(), SYNC_SECONDS * random.uniform(1 - SPREAD, 1 + SPREAD))
            ring.clear()
        if bell is not None:
            bell.cancel()

    async def sync(self, machine: dict[str, Any]) -> dict[str, Any] | None:
        self.sequence += 1
        request = sync_request(self.web_port, machine).replace(SEQUENCE, str(self.sequence).encode())
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        began = time.monotonic()
        self.queue.put_nowait((request, answer))
        status, body = await answer
        self.waits.append(time.monotonic() - began)
        self.statuses[status] += 1
        found: dict[str, Any] | None = json.loads(body) if status == 200 else None
        return found

    async def listen(self, bell: dict[str, str], ring: asyncio.Event) -> None:
        request = get_request(self.bell_port, f"{bell['path']}?ticket={quote(bell['ticket'])}")
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.bell_port)
            except OSError:
                await asyncio.sleep(BELL_RETRY_SECONDS)
                continue
            self.bells += 1
            self.bells_most = max(self.bells, self.bells_most)
            try:
                writer.write(request)
                while line := await reader.readline():
                    if line.startswith(b"event: ring"):
                        self.rings += 1
                        ring.set()
            finally:
                self.bells -= 1
                writer.close()


async def _answer(reader: asyncio.StreamReader) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    body = await reader.readexactly(int(lengths[0].partition(b":")[2]))
    return int(head.split(b" ", 2)[1]), body


async def run(web_port: int, bell_port: int, seconds: float, silent: int, machines: list[dict[str, Any]]) -> Fleet:
    fleet = Fleet(web_port, bell_port, time.monotonic() + seconds)
    senders = [asyncio.create_task(fleet.sender()) for _ in range(CONNECTIONS)]
    agents = (fleet.agent(machine, silent=number < silent) for number, machine in enumerate(machines))
    await asyncio.gather(*agents)
    for sender in senders:
        sender.cancel()
    return fleet


def main() -> None:
    web_port, bell_port, silent = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    fleet = asyncio.run(run(web_port, bell_port, float(sys.argv[3]), silent, json.load(sys.stdin)))
    waits = sorted(fleet.waits)
    print(
        json.dumps(
            {
                "syncs": len(waits),
                "statuses": dict(fleet.statuses),
                "p50_ms": 1000 * waits[len(waits) // 2],
                "p99_ms": 1000 * waits[len(waits) * 99 // 100],
                "bells": fleet.bells_most,
                "rings": fleet.rings,
            }
        )
    )


if __name__ == "__main__":
    main()
