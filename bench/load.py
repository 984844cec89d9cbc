"""A load generator that costs little: keep-alive sockets and prepared bytes, in processes of its own.

    python -m bench.load HOST PORT CONNECTIONS SECONDS < requests (a JSON list of texts) > answers per second

Each connection sends the next request as soon as the last answer is there. ``@SEQUENCE@`` in a request becomes a rising
number of SEQUENCE_DIGITS digits, so that lengths stay what the headers say.
"""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field

SEQUENCE = b"@SEQUENCE@"
SEQUENCE_DIGITS = 16


@dataclass
class Connection:
    socket: socket.socket
    requests: list[bytes]
    number: int = 0
    received: bytes = b""
    wanted: int = -1
    sent_at: float = 0.0
    waits: list[float] = field(default_factory=list)

    def send(self, sequence: int) -> None:
        request = self.requests[self.number % len(self.requests)]
        self.number += 1
        self.sent_at = time.perf_counter()
        self.socket.sendall(request.replace(SEQUENCE, str(sequence).encode()))

    def receive(self) -> bool:
        """True when the whole answer is here. Raises RuntimeError for anything but 200."""
        self.received += self.socket.recv(65536)
        if self.wanted < 0:
            head, found, _ = self.received.partition(b"\r\n\r\n")
            if not found:
                return False
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(self.received[:2000].decode(errors="replace"))
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            self.wanted = len(head) + 4 + int(lengths[0].partition(b":")[2])
        if len(self.received) < self.wanted:
            return False
        self.received, self.wanted = b"", -1
        self.waits.append(time.perf_counter() - self.sent_at)
        return True


def run(host: str, port: int, connections: int, seconds: float, requests: list[bytes]) -> dict[str, float]:
    selector = selectors.DefaultSelector()
    opened = []
    for number in range(connections):
        own = requests[number::connections] or requests
        connection = Connection(socket.create_connection((host, port)), own)
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        opened.append(connection)
    sequence = time.time_ns() // 1000  # a later run goes on above an earlier one
    started = time.perf_counter()
    for connection in opened:
        connection.send(sequence := sequence + 1)
    answered = 0
    while time.perf_counter() - started < seconds:
        for key, _ in selector.select(1):
            if key.data.receive():
                answered += 1
                key.data.send(sequence := sequence + 1)
    elapsed = time.perf_counter() - started
    waits = sorted(wait for connection in opened for wait in connection.waits)
    return {"per_second": answered / elapsed, "p50_ms": 1000 * waits[len(waits) // 2]}


def measure(port: int, requests: list[bytes], *, seconds: float, connections: int = 16) -> dict[str, float]:
    """Run the generator as a process of its own; returns answers per second and the median wait."""
    command = [sys.executable, "-m", "bench.load", "127.0.0.1", str(port), str(connections), str(seconds)]
    text = json.dumps([request.decode() for request in requests])
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    arguments = sys.argv[1:]
    texts = json.load(sys.stdin)
    result = run(arguments[0], int(arguments[1]), int(arguments[2]), float(arguments[3]), [t.encode() for t in texts])
    print(json.dumps(result))
