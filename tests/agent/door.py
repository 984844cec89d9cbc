"""A way into the network namespace of a container: what listens on our loopback, listens on its own."""

import contextlib
import ctypes
import socket
import threading

import docker

from tests.agent.docker_engine import DockerEngine


class Door:
    """Lets the containers of agents reach the platform's addresses on their own loopback, as if it ran on their machine."""

    def __init__(self, engine: DockerEngine, *targets: tuple[str, int]) -> None:
        self._engine = engine
        self._targets = targets
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._listeners: list[socket.socket] = []

    def __enter__(self) -> "Door":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _watch(self) -> None:
        client, known = self._engine.client(), set()
        while not self._stop.wait(0.1):
            with contextlib.suppress(docker.errors.APIError):
                pid = client.api.inspect_container("gpunex-agent")["State"]["Pid"]
                if pid and pid not in known:
                    known.add(pid)
                    self._open(pid)
        client.close()

    def _open(self, pid: int) -> None:
        for target in self._targets:
            with open("/proc/thread-self/ns/net") as ours, open(f"/proc/{pid}/ns/net") as theirs:
                _enter(theirs.fileno())
                try:
                    listener = socket.create_server(target)
                finally:
                    _enter(ours.fileno())
            self._listeners.append(listener)
            threading.Thread(target=self._serve, args=(listener, target), daemon=True).start()

    def _serve(self, listener: socket.socket, target: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):
            while True:
                inside, _ = listener.accept()
                with contextlib.suppress(ConnectionError):  # the platform is away: so is this connection
                    outside = socket.create_connection(target)
                    for source, sink in ((inside, outside), (outside, inside)):
                        threading.Thread(target=_pump, args=(source, sink), daemon=True).start()
                    continue
                inside.close()


def _enter(namespace: int) -> None:
    """This thread's network namespace (setns(2); CLONE_NEWNET)."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0x40000000):
        raise OSError(ctypes.get_errno(), "setns")


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            sink.sendall(content)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
