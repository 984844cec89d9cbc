"""The guard beside an engine that misbehaves or stays away."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.guard.engine import Engine
from agent.guard.errors import EngineAway
from agent.guard.policy import Policy
from agent.guard.server import GuardServer
from tests.agent.guard_requests import ask
from tests.agent.waiting import eventually


@pytest.fixture
def misbehaving(tmp_path: Any) -> Iterator[Any]:
    """`misbehaving(answer)`: an Engine that gets exactly these bytes for an answer."""
    listeners = []

    def made(content: bytes) -> Engine:
        path = str(tmp_path / f"engine{len(listeners)}.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        listeners.append(listener)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(content)

        threading.Thread(target=answer, daemon=True).start()
        return Engine(path)

    yield made
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nraw",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"hello\r\n\r\n",
    ],
)
def test_an_answer_that_breaks_off_or_changes_the_protocol_is_not_passed_on(misbehaving: Any, content: bytes) -> None:
    client, other = socket.socketpair()
    with client, other:
        with pytest.raises(EngineAway):
            misbehaving(content).relay(other, "GET", "/x", query={})
        other.close()
        assert client.recv(10) == b""
    with pytest.raises(EngineAway):
        misbehaving(content).call("GET", "/x")


def test_a_guard_whose_engine_stays_away_ends_so_that_it_is_started_again(tmp_path: Path) -> None:
    """It may hold a socket that the engine has replaced. Until somebody asks it knows nothing, and waits."""
    path = tmp_path / "guard.sock"
    server = GuardServer(path, Engine(str(tmp_path / "no.sock")), Policy(), patience_s=0.0)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(server.serve(threading.Event())), daemon=True)
    thread.start()
    eventually(path.exists, "it listens", 60)
    assert eventually(lambda: ask(path, "GET", "/version"), "it answers", 60)[0] == 502
    thread.join(60)
    assert ended == [False]
    assert not path.exists()


def test_an_engine_that_answers_again_is_not_away(misbehaving: Any, tmp_path: Path) -> None:
    engine = misbehaving(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    good, engine._address = engine._address, str(tmp_path / "no.sock")
    with pytest.raises(EngineAway):
        engine.call("GET", "/x")
    assert engine.away_s() > 0
    engine._address = good
    assert engine.call("GET", "/x").json() == {}
    assert engine.away_s() == 0
