"""Whom a job asks for names: a real Docker Engine in a network namespace, behind the real rules, between two name servers."""

import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agent.confinement import JOB_RESOLVERS
from agent.runtime.docker import DockerRuntime
from tests.agent.docker_engine import DockerEngine
from tests.agent.docker_jobs import job, settings
from tests.agent.guard_requests import order_of
from tests.agent.network import NFT, RULES, Namespace, _sysctl
from tests.agent.registry import FakeRegistry
from tests.agent.waiting import eventually

pytestmark = [pytest.mark.engine, pytest.mark.netfilter]

PUBLIC, PUBLIC_SAYS = JOB_RESOLVERS[0], "93.184.216.34"
# The owner's, which knows the names of his network.
PRIVATE, PRIVATE_SAYS = "192.168.77.53", "192.168.77.7"


class NameServer:
    """Answers every question for an address with the same one, from one address in a namespace."""

    def __init__(self, namespace: Namespace, address: str, says: str) -> None:
        self.asked: list[str] = []
        self._socket: socket.socket = namespace.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))
        self._socket.settimeout(0.2)
        self._says = socket.inet_aton(says)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                question, sender = self._socket.recvfrom(2000)
            except TimeoutError:
                continue
            self._socket.sendto(self._answer(question), sender)

    def _answer(self, question: bytes) -> bytes:
        """RFC 1035, section 4.1: the question once more, and one record that points at its name."""
        end = question.index(b"\0", 12) + 5
        (kind,) = struct.unpack("!H", question[end - 4 : end - 2])
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1 : at + 1 + question[at]].decode("ascii"))
            at += 1 + question[at]
        self.asked.append(".".join(labels))
        records = 1 if kind == 1 else 0
        head = question[:2] + struct.pack("!HHHHH", 0x8180, 1, records, 0, 0)
        record = struct.pack("!HHHIH", 0xC00C, 1, 1, 60, 4) + self._says
        return head + question[12:end] + record * records

    def close(self) -> None:
        self._closing.set()
        self._thread.join(60)
        self._socket.close()


@dataclass
class Net:
    host: Namespace
    public: NameServer
    private: NameServer
    own: NameServer
    runtime: DockerRuntime
    registry: FakeRegistry

    def asks(self, question: str) -> str:
        """What a job's `nslookup` prints."""
        wanted = order_of(job(self.registry, f"busybox nslookup -type=a {question}"))
        self.runtime.start(wanted, self.runtime.prepare(wanted, lambda: False))
        try:
            eventually(lambda: self.runtime.observe(wanted.name).state == "exited", "it has its answer", 120)
            return self.runtime.log_read(wanted.name, 0, 4096).content.decode()
        finally:
            self.runtime.release(wanted.name)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    """The machine has a name server of its own, as with dnsmasq or unbound: an engine asks that one from the machine itself."""
    host, world = Namespace(), Namespace()
    host.run(f"ip link add wan type veth peer name eth0 netns {world.tid}")
    for end, device, address in ((host, "wan", "5.5.5.5/24"), (world, "eth0", "5.5.5.1/24")):
        end.run(f"ip address add {address} dev {device}")
        end.run(f"ip link set {device} up")
    host.run("ip route add default via 5.5.5.1")
    host.call(_sysctl, "net.ipv4.ip_forward", "1")
    # Everything is at home in the world but the engine's networks.
    world.run("ip route add local 0.0.0.0/0 dev lo")
    for network in ("172.16.0.0/12", "192.168.0.0/20"):
        world.run(f"ip route add {network} via 5.5.5.5")
    servers = (
        NameServer(world, PUBLIC, PUBLIC_SAYS),
        NameServer(world, PRIVATE, PRIVATE_SAYS),
        NameServer(host, "127.0.0.1", PRIVATE_SAYS),
    )
    registry = host.call(FakeRegistry)
    engine = DockerEngine(
        registries=(registry.name,), guard_options=("--job-network", "bridge"), resolvers="nameserver 127.0.0.1\n"
    )
    host.call(engine.start)
    folder: Path = tmp_path_factory.mktemp("names")
    runtime = DockerRuntime(replace(settings(engine, registry, folder), job_network="bridge"), "machine-1")
    yield Net(host, *servers, runtime, registry)
    runtime.close()
    engine.close()
    registry.close()
    for each in servers:
        each.close()
    for namespace in (world, host):
        namespace.close()


def test_a_job_asks_a_public_resolver_and_not_the_machines(net: Net) -> None:
    net.host.run(f"{NFT} -f {RULES}")
    try:
        said = net.asks("nas.example")
    finally:
        net.host.run(f"{NFT} flush ruleset")
    assert PUBLIC_SAYS in said, said
    assert "nas.example" in net.public.asked
    assert net.own.asked == []


def test_a_private_server_that_a_job_names_itself_is_not_asked_either(net: Net) -> None:
    question = f"nas.example {PRIVATE}"
    assert PRIVATE_SAYS in net.asks(question), "the control: without rules it is"
    net.private.asked.clear()
    net.host.run(f"{NFT} -f {RULES}")
    try:
        said = net.asks(question)
    finally:
        net.host.run(f"{NFT} flush ruleset")
    assert PUBLIC_SAYS in said, said
    assert PRIVATE_SAYS not in said
    assert net.private.asked == []
