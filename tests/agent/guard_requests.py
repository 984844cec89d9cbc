"""Requests to a guard, byte by byte, and the create body that the agent's sandbox makes."""

import json
import socket
from pathlib import Path
from typing import Any

from docker.types import ContainerConfig, HostConfig

from agent.confinement import UNPRIVILEGED_USER, WORKSPACE
from agent.runtime import sandbox
from agent.runtime.base import JobOrder
from agent_protocol.messages import AttemptPlan

API = "/v1.41"
IMAGE_ENVIRONMENT = ["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=99", "LD_PRELOAD=/evil.so", "KEPT=yes"]


def order_of(body: dict[str, Any]) -> JobOrder:
    plan = AttemptPlan.parse(body)
    return JobOrder(name=f"gpunex-job-{plan.job_id}-{plan.number}", machine_id="machine-1", plan=plan)


def create_body(order: JobOrder, image: str, *, network: str = "none") -> dict[str, Any]:
    """What the agent sends for an image with IMAGE_ENVIRONMENT and a VOLUME /declared."""
    host_config = sandbox.host_config(order, volume=order.name, network=network, image_volumes=["/declared"])
    config = ContainerConfig(
        "1.41",
        image,
        list(order.plan.command),
        user=UNPRIVILEGED_USER,
        working_dir=WORKSPACE,
        environment=sandbox.job_environment(order, IMAGE_ENVIRONMENT),
        labels=sandbox.labels(order),
        healthcheck=sandbox.NO_HEALTHCHECK,
        host_config=HostConfig("1.41", **host_config),
    )
    # As the library does before it sends.
    body: dict[str, Any] = json.loads(json.dumps({name: value for name, value in config.items() if value is not None}))
    return body


def raw(path: Path, content: bytes) -> tuple[int, bytes]:
    """Status and body of what comes back; 0 when the connection just ends."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(path))
        answer = b""
        try:
            connection.sendall(content)
            while block := connection.recv(65_536):
                answer += block
        except (BrokenPipeError, ConnectionResetError):
            pass
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body


def request(method: str, target: str, body: bytes | None = None, *headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def ask(path: Path, method: str, target: str, body: Any = None) -> tuple[int, Any]:
    """Like a client: JSON out, JSON back (null where the answer is none)."""
    content = None if body is None else json.dumps(body).encode()
    status, content = raw(path, request(method, target, content, "Connection: close"))
    try:
        return status, json.loads(content)
    except ValueError:
        return status, None
