"""A host, two jobs and the world beyond, each in a network namespace of its own. They end with the threads that hold them."""

import ctypes
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.agent.agent_image import ROOT

RULES = ROOT / "agent" / "egress.nft"
NFT = "/usr/sbin/nft"
PORTS = (9, 10, 22, 25, 53, 80, 443, 465, 587, 8080)
_CLONE_NEWNET = 0x40000000
_PATIENCE_S = 60


class Namespace:
    """A thread in a network namespace of its own; what it starts lives there too."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, initializer=_unshare)
        self.tid = self.call(threading.get_native_id)
        self.run("ip link set lo up")

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return self._pool.submit(function, *arguments, **options).result(options.get("timeout", _PATIENCE_S))

    def run(self, command: str, *, text: str | None = None) -> str:
        done = self.try_run(command, text=text)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return str(done.stdout)

    def try_run(self, command: str, *, text: str | None = None) -> "subprocess.CompletedProcess[str]":
        return self.call(_run, command.split(), text)  # type: ignore[no-any-return]

    def listen(self, *ports: int) -> list[socket.socket]:
        """Sockets that take connections at every address this namespace calls its own; nobody accepts them."""
        return [self.call(_listener, port, family) for port in ports for family in (socket.AF_INET, socket.AF_INET6)]

    def connect(self, address: str, port: int) -> int:
        """0, or the error number."""
        return int(self.call(_connect, address, port)[0])

    def connected(self, address: str, port: int) -> socket.socket:
        error, connection = self.call(_connect, address, port)
        assert error == 0, os.strerror(error)
        return connection

    def close(self) -> None:
        self._pool.shutdown()


class Site:
    """host: its jobs' interfaces are gpxa and gpxb; it has the public addresses 5.5.5.5 and 2a01::5, and `wan` to the world.

    world: answers at every address there is. The second job also has 9.9.9.9 and 2a09::9.
    """

    def __init__(self) -> None:
        self.host, self.world, self.job, self.other = Namespace(), Namespace(), Namespace(), Namespace()
        for knob in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            self.host.call(_sysctl, knob, "1")
        for number, (name, peer) in enumerate((("wan", self.world), ("gpxa", self.job), ("gpxb", self.other)), 1):
            self.host.run(f"ip link add {name} type veth peer name eth0 netns {peer.tid}")
            for end, device, last in ((self.host, name, 1), (peer, "eth0", 2)):
                end.run(f"ip address add 10.200.{number}.{last}/24 dev {device}")
                end.run(f"ip address add fd00:{number}::{last}/64 dev {device} nodad")
                end.run(f"ip link set {device} up")
            if peer is not self.world:
                peer.run("ip route add default via 10.200.%d.1" % number)  # noqa: UP031
                peer.run(f"ip -6 route add default via fd00:{number}::1")
        self.host.run("ip route add default via 10.200.1.2")
        self.host.run("ip -6 route add default via fd00:1::2")
        self.world.run("ip route add 10.200.0.0/16 via 10.200.1.1")
        self.world.run("ip -6 route add fd00::/16 via fd00:1::1")
        # Everything else is at home there.
        self.world.run("ip route add local 0.0.0.0/0 dev lo")
        self.world.run("ip -6 route add local ::/0 dev lo table main")
        self.host.run("ip address add 5.5.5.5/32 dev lo")
        self.host.run("ip address add 2a01::5/128 dev lo nodad")
        self.other.run("ip address add 9.9.9.9/32 dev lo")
        self.other.run("ip address add 2a09::9/128 dev lo nodad")
        self.host.run("ip route add 9.9.9.9/32 via 10.200.3.2")
        self.host.run("ip -6 route add 2a09::9/128 via fd00:3::2")
        self.listeners = [
            *self.world.listen(*PORTS),
            *self.host.listen(80),
            *self.other.listen(80),
            *self.job.listen(80),
        ]

    def load(self, change: Callable[[str], str] = lambda rules: rules) -> None:
        self.host.run(f"{NFT} -f -", text=change(RULES.read_text()))

    def unload(self) -> None:
        self.host.run(f"{NFT} flush ruleset")

    def probe(self) -> "subprocess.CompletedProcess[str]":
        """`agent egress-probe` in the first job's place."""
        return self.job.call(_run, [sys.executable, "-m", "agent", "egress-probe"], None)  # type: ignore[no-any-return]

    def close(self) -> None:
        for listener in self.listeners:
            listener.close()
        for namespace in (self.job, self.other, self.world, self.host):
            namespace.close()


def _unshare() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")


def _run(command: list[str], text: str | None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=_PATIENCE_S, cwd=ROOT
    )


def _sysctl(name: str, value: str) -> None:
    with open(f"/proc/sys/{name.replace('.', '/')}", "w") as knob:
        knob.write(value)


def _listener(port: int, family: socket.AddressFamily) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family is socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind(("", port))
    listener.listen(1024)
    return listener


def _connect(address: str, port: int) -> tuple[int, socket.socket]:
    connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    connection.settimeout(30)
    return connection.connect_ex((address, port)), connection
