"""The guard's own side of the engine: one connection per call, closed with its answer."""

import json
import re
import select
import socket
import time
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any

from agent.guard.errors import EngineAway
from agent.guard.strict import json_write, query_write

_CONNECT_S = 5.0
# Starting a container can take a while; the agent's own patience is shorter than this.
_CALL_S = 120.0
_SEND_S = 120.0
MAX_ANSWER = 16 * 1024 * 1024
_MAX_HEAD = 64 * 1024
_BLOCK = 65_536
_STATUS = re.compile(rb"HTTP/1\.1 ([2-5][0-9]{2})[^\r\n]*")
_PASSED = (b"content-type", b"content-length", b"transfer-encoding")


@dataclass(frozen=True)
class Answer:
    """What the engine said, whole."""

    status: int
    content_type: str
    body: bytes

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise EngineAway("its answer is no JSON") from None


class Engine:
    """`address`: path of the engine's unix socket. Every method raises EngineAway."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._away_since: float | None = None

    def away_s(self) -> float:
        """For how long every attempt to reach it has failed; 0 while it answers, or nobody has asked."""
        since = self._away_since
        return 0.0 if since is None else time.monotonic() - since

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Any = None,
        raw: bytes | None = None,
        timeout_s: float = _CALL_S,
    ) -> Answer:
        """One call with a bounded answer. `body` is sent as JSON, `raw` as a tar archive."""
        with self._ask(method, path, query, body, raw, timeout_s) as connection:
            response = HTTPResponse(connection, method=method)
            try:
                response.begin()
                if response.length is None and not response.chunked:
                    raise EngineAway("its answer has no end")
                content = response.read(MAX_ANSWER + 1)
            except (HTTPException, OSError) as error:
                raise EngineAway(type(error).__name__) from None
            finally:
                response.close()
            if len(content) > MAX_ANSWER or response.status < 200:
                raise EngineAway("its answer is too large")
            return Answer(response.status, response.headers.get("Content-Type", "text/plain"), content)

    def relay(
        self, client: socket.socket, method: str, path: str, *, query: dict[str, str], login: str | None = None
    ) -> None:
        """Pass the answer on as it comes, framing and all, until either side ends it. Raises OSError too."""
        with self._ask(method, path, query, None, None, _CALL_S, login) as connection:
            # No bound of ours: an engine that pulls says nothing until the registry has spoken, and the client knows how long
            # it wants to wait for that.
            connection.settimeout(None)
            found = _head_read(connection, client)
            if found is not None:
                client.settimeout(_SEND_S)
                client.sendall(b"".join(found))
                _pump(connection, client)

    def _ask(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None,
        body: Any,
        raw: bytes | None,
        timeout_s: float,
        login: str | None = None,
    ) -> socket.socket:
        content = b"" if body is None else json_write(body)
        kind = "application/json"
        if raw is not None:
            content, kind = raw, "application/x-tar"
        head = f"{method} {path}{query_write(query or {})} HTTP/1.1\r\nHost: guard\r\nConnection: close\r\n"
        if content or method != "GET":
            head += f"Content-Length: {len(content)}\r\n"
        if content:
            head += f"Content-Type: {kind}\r\n"
        if login is not None:
            head += f"X-Registry-Auth: {login}\r\n"
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_CONNECT_S)
            connection.connect(self._address)
            self._away_since = None
            connection.settimeout(timeout_s)
            connection.sendall(head.encode("ascii") + b"\r\n" + content)
        except OSError as error:
            connection.close()
            if self._away_since is None:
                self._away_since = time.monotonic()
            raise EngineAway(type(error).__name__) from None
        return connection


def _engine_speaks(engine: socket.socket, client: socket.socket) -> bool:
    """Wait for the engine's next bytes, or its end; false when the client went away first, or speaks out of turn."""
    poller = select.poll()
    poller.register(engine, select.POLLIN)
    poller.register(client, select.POLLIN)
    return engine.fileno() in {number for number, _ in poller.poll()}


def _head_read(connection: socket.socket, client: socket.socket) -> tuple[bytes, bytes] | None:
    """The head to pass on, and what came behind it; null when the client went away. An engine that wants to change the
    protocol is not followed."""
    content = b""
    while b"\r\n\r\n" not in content:
        if not _engine_speaks(connection, client):
            return None
        try:
            block = connection.recv(_BLOCK)
        except OSError as error:
            raise EngineAway(type(error).__name__) from None
        content += block
        if not block or len(content) > _MAX_HEAD:
            raise EngineAway("its answer broke off")
    head, _, rest = content.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    if not _STATUS.fullmatch(first):
        raise EngineAway("an unexpected status")
    kept = [line for line in lines if line.partition(b":")[0].lower() in _PASSED]
    return b"\r\n".join([first, *kept, b"Connection: close"]) + b"\r\n\r\n", rest


def _pump(engine: socket.socket, client: socket.socket) -> None:
    """Bytes from the engine to the client, unbuffered. A client that goes away ends it even while the engine is silent."""
    while _engine_speaks(engine, client):
        block = engine.recv(_BLOCK)
        if not block:
            return
        client.sendall(block)
