"""The doubles that agents are tested with: strict with what was said, deaf to what was cut off in the middle."""

import json
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.agent.platform import FakePlatform
from tests.agent.serving import DoubleHandler, DoubleServer
from tests.agent.waiting import eventually

DEADLINE_S = 60.0
PATHS = ("enrol", "credential", "sync", "events", "attempts/1/logs", "bench/1/start", "bench/1/commit", "bench/1/open")
BODY = json.dumps({"what": "é" * 20}, ensure_ascii=False).encode()


def _request(path: str, body: bytes = BODY) -> bytes:
    head = f"POST /agent/v1/{path} HTTP/1.1\r\nHost: platform\r\nAuthorization: Bearer c\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _reply(port: int, content: bytes) -> bytes:
    """What a client hears that says this and ends, until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture
def double() -> Iterator[FakePlatform]:
    """A platform that may have seen violations when the test ends."""
    fake = FakePlatform()
    yield fake
    fake.close()


@pytest.mark.parametrize("path", PATHS)
def test_a_request_cut_short_is_a_dropped_connection(double: FakePlatform, path: str) -> None:
    whole = _request(path)
    head = len(whole) - len(BODY)
    line = whole.index(b"\r\n")
    for end in (line, line + 2, head - 4, head - 2, head, head + 1, head + len(BODY) // 2, len(whole) - 1):
        assert _reply(double.port, whole[:end]) == b"", whole[:end]
    assert double.violations == []


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("junk", [b"", b"junk", BODY[:-1], b"\xff" * 8, b'{"a": NaN}'])
def test_a_whole_request_that_is_not_json_is_a_violation(double: FakePlatform, path: str, junk: bytes) -> None:
    assert _reply(double.port, _request(path, junk)).startswith(b"HTTP/1.1 400 ")
    (violation,) = double.violations
    assert violation.startswith(f"/agent/v1/{path}: ")


def test_a_client_that_is_gone_leaves_no_traceback(double: FakePlatform, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(threading.enumerate())
    bell = socket.create_connection(("127.0.0.1", double.port), timeout=DEADLINE_S)
    bell.sendall(b"GET /agent/v1/bell?ticket=ticket HTTP/1.1\r\n\r\n")
    eventually(lambda: double.bells, "the bell is open", DEADLINE_S)
    posting = socket.create_connection(("127.0.0.1", double.port), timeout=DEADLINE_S)
    posting.sendall(_request("sync")[:-1])
    for connection in (bell, posting):  # a reset, as after a kill with bytes unread
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def served() -> bool:
        double.ring()
        return set(threading.enumerate()) <= before

    eventually(served, "both connections have ended", DEADLINE_S)
    assert capsys.readouterr().err == ""
    assert double.violations == []


def test_a_mistake_of_the_double_itself_is_still_told(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(DoubleHandler):
        def do_POST(self) -> None:
            raise RuntimeError("a mistake of the double")

    server = DoubleServer(Broken)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    assert _reply(server.server_port, _request("sync")) == b""
    server.shutdown()
    server.server_close()
    assert "a mistake of the double" in capsys.readouterr().err
