"""One HTTP/1.1 request per connection, read strictly: what two readers could understand differently is refused.

Grammar: RFC 9112, less everything that this service has no use for (other versions, chunked bodies, several requests,
upgrades, continuation lines, unknown header fields).
"""

import re
import socket
import time
from dataclasses import dataclass, field

from agent.guard.errors import Refused, shown
from agent.guard.strict import json_write, query_read

MAX_HEAD = 16 * 1024
_BLOCK = 65_536
_LINE = re.compile(r"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE) (\S{1,8000}) HTTP/1\.1")
_FIELD = re.compile(r"([A-Za-z0-9-]{1,64}):[ \t]*([\x20-\x7e]{0,8192})")
_VALUE_BYTES = 4000
_PATH = re.compile(r"(?:/v1\.([1-9][0-9]))?((?:/(?:[A-Za-z0-9_.:-]|%40)+)+)")
_LENGTH = re.compile(r"[0-9]{1,9}")
# What the agent's library sends. Everything else has no meaning here, or a dangerous one.
_LOGIN = "x-registry-auth"
_FIELDS = frozenset(
    {
        "host",
        "user-agent",
        "accept",
        "accept-encoding",
        "connection",
        "content-type",
        "content-length",
        _LOGIN,
    }
)
_REASONS = {200: "OK", 403: "Forbidden", 404: "Not Found", 409: "Conflict", 502: "Bad Gateway", 503: "Busy"}


@dataclass(frozen=True)
class Request:
    """`version` is the minor number in `/v1.NN/…`, null for a path without one. The body is read by `body_read`; `login` is
    what came as X-Registry-Auth, unread."""

    method: str
    version: int | None
    path: str
    query: dict[str, str]
    length: int
    rest: bytes = field(repr=False)
    login: str | None = field(default=None, repr=False)


def request_read(connection: socket.socket, deadline: float) -> Request | None:
    """The head of a request; null when the peer went away without one. Raises Refused, OSError."""
    content = b""
    while b"\r\n\r\n" not in content:
        if len(content) > MAX_HEAD:
            raise Refused("head", f"more than {MAX_HEAD} bytes", f"{MAX_HEAD} bytes")
        block = _receive(connection, deadline)
        if not block:
            if content:
                raise Refused("head", "its first half", "a whole one")
            return None
        content += block
    head, _, rest = content.partition(b"\r\n\r\n")
    try:
        first, *lines = head.decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        raise Refused("head", "other bytes", "ASCII") from None
    line = _LINE.fullmatch(first)
    if line is None:
        raise Refused("request line", shown(first[:60]), "METHOD /path HTTP/1.1")
    version, path, query = _target(line[2])
    fields = _fields(lines)
    return Request(line[1], version, path, query, _length(fields), rest, fields.get(_LOGIN))


def body_read(connection: socket.socket, request: Request, maximum: int, deadline: float) -> bytes:
    """Exactly as many bytes as announced, and nothing behind them. Raises Refused, OSError."""
    if request.length > maximum:
        raise Refused("body", f"{request.length} bytes", f"{maximum} bytes" if maximum else "none")
    blocks, size = [request.rest], len(request.rest)
    while size < request.length:
        block = _receive(connection, deadline)
        if not block:
            raise Refused("body", f"{size} bytes", f"the {request.length} that were announced")
        blocks.append(block)
        size += len(block)
    if size > request.length:
        raise Refused("body", "more bytes than were announced", "one request per connection")
    return b"".join(blocks)


def _receive(connection: socket.socket, deadline: float) -> bytes:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)
    return connection.recv(_BLOCK)


def _target(target: str) -> tuple[int | None, str, dict[str, str]]:
    path, mark, query = target.partition("?")
    match = _PATH.fullmatch(path)
    if match is None or any(part in (".", "..") for part in path.split("/")):
        raise Refused("path", shown(path), "/v1.NN/…, plainly spelled")
    return int(match[1]) if match[1] else None, match[2], query_read(query) if mark else {}


def _fields(lines: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in lines:
        match = _FIELD.fullmatch(line)
        if match is None:
            raise Refused("header", shown(line.partition(":")[0][:64]), "Name: value")
        name = match[1].lower()
        if name not in _FIELDS:
            raise Refused(f"header {name}", "a value", "no header of this name")
        if name != _LOGIN and len(match[2]) > _VALUE_BYTES:
            raise Refused(f"header {name}", f"more than {_VALUE_BYTES} bytes", f"{_VALUE_BYTES} bytes")
        if name in fields:
            raise Refused(f"header {name}", "it twice", "each header once")
        fields[name] = match[2].rstrip(" ")
    if fields.get("connection", "close").lower() not in ("close", "keep-alive"):
        raise Refused("header connection", shown(fields["connection"]), "close or keep-alive")
    if fields.get("content-type", "application/json").lower() != "application/json":
        raise Refused("header content-type", shown(fields["content-type"]), "application/json")
    return fields


def _length(fields: dict[str, str]) -> int:
    length = fields.get("content-length", "0")
    if not _LENGTH.fullmatch(length):
        raise Refused("header content-length", shown(length), "a whole number")
    return int(length)


def answer(status: int, body: bytes, content_type: str = "application/json") -> bytes:
    """A whole response. Every connection ends with its answer."""
    head = f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\nContent-Type: {content_type}\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode("ascii") + body


def answer_error(status: int, message: str) -> bytes:
    return answer(status, json_write({"message": message}))
