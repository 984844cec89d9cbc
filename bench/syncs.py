"""What an agent sends, as bytes that are ready to go."""

from __future__ import annotations

import json
from typing import Any

from agent_protocol.messages import GpuTelemetry, SyncRequest
from agent_protocol.version import AGENT_VERSION, PROTOCOL
from bench.load import SEQUENCE, SEQUENCE_DIGITS


def sync_request(port: int, machine: dict[str, Any]) -> bytes:
    """A whole HTTP request in which nothing has changed; ``machine`` as bench.machines prints it. SEQUENCE stays open."""
    message = SyncRequest(
        protocol=PROTOCOL,
        sequence=1,
        boot_id=machine["boot_id"],
        agent_version=AGENT_VERSION,
        plan_version=machine["plan_version"],
        degraded=(),
        inventory_digest=machine["inventory_digest"],
        inventory=None,
        telemetry=tuple(
            GpuTelemetry(
                uuid=uuid,
                utilization_percent=12.5,
                memory_used_bytes=2**30,
                temperature_c=41.0,
                power_w=88.0,
                sm_clock_mhz=1410,
                memory_clock_mhz=1593,
                foreign_processes=0,
            )
            for uuid in machine["gpus"]
        ),
        attempts=(),
        benchmarks=(),
    )
    body = json.dumps(message.to_dict() | {"sequence": SEQUENCE.decode()}).replace(
        f'"{SEQUENCE.decode()}"', SEQUENCE.decode()
    )
    length = len(body) - len(SEQUENCE) + SEQUENCE_DIGITS
    head = (
        f"POST /agent/v1/sync HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {machine['credential']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    return (head + body).encode()


def get_request(port: int, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
