"""HTTP for the doubles: requests that come whole, and clients that may be killed at any moment."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class DoubleServer(ThreadingHTTPServer):
    """A free port of the loopback, a thread for each connection."""

    daemon_threads = True

    def __init__(self, handler: type["DoubleHandler"]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is no news; everything else is."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class DoubleHandler(BaseHTTPRequestHandler):
    """One connection. A request that was cut short reaches nobody: its sender is gone, and said nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments: Any) -> None:
        """Quiet."""

    def setup(self) -> None:
        super().setup()
        self.rfile = _Lines(self.rfile)  # type: ignore[assignment]

    def parse_request(self) -> bool:
        """False as well where the connection ended within the head, which the standard library takes for a whole one."""
        if not super().parse_request():
            return False
        if self.rfile.last not in (b"\r\n", b"\n"):  # type: ignore[attr-defined]
            self.close_connection = True
            return False
        return True

    def content(self) -> bytes | None:
        """The request's body; null when it was cut short, and then the connection closes without an answer."""
        length = int(self.headers.get("Content-Length", "0"))
        content = self.rfile.read(length)
        if len(content) < length:
            self.close_connection = True
            return None
        return content


class _Lines:
    """A stream that remembers its last line."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.last = b""

    def readline(self, limit: int = -1) -> bytes:
        self.last = self._stream.readline(limit)
        return self.last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
