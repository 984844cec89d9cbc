"""The rules for jobs' networks, loaded into a real packet filter between real interfaces.

Each refusal has its control: without the rules the same connection succeeds.
"""

import errno
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from agent.egress import CANARY, gateway_read
from tests.agent.network import NFT, RULES, Site
from tests.agent.waiting import eventually

pytestmark = pytest.mark.netfilter
REFUSED = {errno.EHOSTUNREACH, errno.EACCES}

PRIVATE4 = {
    "this network": "0.0.0.1",
    "RFC 1918, ten": "10.1.2.3",
    "carrier-grade NAT, first": "100.64.0.1",
    "carrier-grade NAT, last": "100.127.255.254",
    "metadata of clouds": "169.254.169.254",
    "link-local": "169.254.1.1",
    "RFC 1918, twelve bits": "172.31.255.254",
    "protocol assignments": "192.0.0.170",
    "documentation 1": "192.0.2.7",
    "6to4 relays": "192.88.99.1",
    "RFC 1918, sixteen bits": "192.168.1.1",
    "benchmarks": "198.19.255.254",
    "documentation 2": "198.51.100.1",
    "documentation 3": "203.0.113.1",
    "reserved": "240.0.0.1",
}
# No ordinary connection can be made to these; that the rules hold them is asked of the packet filter itself.
UNCONNECTABLE4 = ("127.0.0.1", "127.255.255.254", "224.0.0.1", "239.255.255.250", "255.255.255.255")
PRIVATE6 = {
    "local NAT64": "64:ff9b:1::a00:1",
    "discard": "100::1",
    "Teredo": "2001::1",
    "documentation": "2001:db8::1",
    "6to4": "2002:a00:1::1",
    "documentation 2": "3fff::1",
    "segment routing": "5f00::1",
    "unique local": "fc00::1",
    "unique local, a home's": "fd12:3456::1",
    "site-local": "fec0::1",
    "NAT64 of 10.0.0.1": "64:ff9b::a00:1",
    "NAT64 of 100.64.0.1": "64:ff9b::6440:1",
    "NAT64 of the metadata": "64:ff9b::a9fe:a9fe",
    "NAT64 of 172.16.0.1": "64:ff9b::ac10:1",
    "NAT64 of 192.168.0.1": "64:ff9b::c0a8:1",
    "NAT64 of 198.18.0.1": "64:ff9b::c612:1",
    "NAT64 of 0.0.0.1": "64:ff9b::1",
    "NAT64 of 127.0.0.1": "64:ff9b::7f00:1",
    "NAT64 of 240.0.0.1": "64:ff9b::f000:1",
}
UNCONNECTABLE6 = ("::", "::1", "::ffff:10.0.0.1", "::10.0.0.1", "::ffff:0:a00:1", "fe80::1", "ff02::1", "ff0e::1")
OWN = {"a bridge": "10.200.2.1", "public": "5.5.5.5", "a bridge, IPv6": "fd00:2::1", "public, IPv6": "2a01::5"}
OTHER_JOB = {"bridge address": "10.200.3.2", "public": "9.9.9.9", "IPv6": "fd00:3::2", "public, IPv6": "2a09::9"}
PUBLIC = ("8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.32.0.1", "223.255.255.254")
PUBLIC6 = ("2600::1", "2a00:1450::1", "2001:4860:4860::8888", "64:ff9b::808:808")


def ids(named: dict[str, str]) -> dict[str, Any]:
    return {"argvalues": list(named.values()), "ids": list(named)}


@pytest.fixture(scope="module")
def shared_site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    yield shared_site
    shared_site.unload()


def web(rules: str) -> str:
    assert rules.count("        jump open\n") == 1
    return rules.replace("        jump open\n", "        jump web\n")


@pytest.mark.parametrize("address", **ids({**PRIVATE4, **PRIVATE6, **OWN, **OTHER_JOB}))
def test_a_job_does_not_reach(site: Site, address: str) -> None:
    assert site.job.connect(address, 80) == 0, "the control: without rules it does"
    site.load()
    assert site.job.connect(address, 80) in REFUSED
    site.load(web)
    assert site.job.connect(address, 80) in REFUSED


def _held(site: Site, address: str) -> bool:
    name = "private6" if ":" in address else "private4"
    return site.host.try_run(f"{NFT} get element inet gpunex {name} {{ {address} }}").returncode == 0


def test_the_sets_hold_every_special_address_and_no_other(site: Site) -> None:
    site.load()
    for address in (*PRIVATE4.values(), *UNCONNECTABLE4, *PRIVATE6.values(), *UNCONNECTABLE6):
        assert _held(site, address), address
    for address in (*PUBLIC, *PUBLIC6):
        assert not _held(site, address), address


@pytest.mark.parametrize("address", [*PUBLIC, *PUBLIC6])
@pytest.mark.parametrize("port", [80, 443, 8080, 22])
def test_the_internet_is_open_or_web_only(site: Site, address: str, port: int) -> None:
    site.load()
    assert site.job.connect(address, port) == 0
    site.load(web)
    assert (site.job.connect(address, port) == 0) is (port in (80, 443))


@pytest.mark.parametrize("port", [25, 465, 587])
@pytest.mark.parametrize("address", ["8.8.8.8", "2600::1"])
def test_no_mail_is_sent_from_here(site: Site, address: str, port: int) -> None:
    assert site.job.connect(address, port) == 0
    site.load()
    assert site.job.connect(address, port) in REFUSED


@pytest.mark.parametrize("address", ["192.168.1.1", "169.254.169.253", "fd12::53"])
def test_names_are_found_at_a_public_resolver_in_place_of_a_private_one(site: Site, address: str) -> None:
    site.load(web)
    site.job.connected(address, 53).close()
    asked = [listener for listener in site.listeners if listener.getsockname()[1] == 53]
    listener = asked[":" in address]
    answered, _ = listener.accept()
    with answered:
        assert answered.getsockname()[0] in ("1.1.1.1", "2606:4700:4700::1111")


@pytest.mark.parametrize("mode", ["open", "web"])
@pytest.mark.parametrize("port", [443, 53, 123])
def test_datagrams_follow_the_same_rules(site: Site, mode: str, port: int) -> None:
    site.load(web if mode == "web" else lambda rules: rules)
    receiver = site.world.call(_datagrams, port)
    sender = site.job.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, sender:
        sender.connect_ex(("8.8.8.8", port))
        sender.send(b"hello")
        if mode == "web" and port == 123:
            eventually(lambda: sender.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in REFUSED, "it is refused")
        else:
            assert receiver.recv(10) == b"hello"


def _datagrams(port: int) -> socket.socket:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.settimeout(60)
    receiver.bind(("", port))
    return receiver


@pytest.mark.parametrize("address", ["10.200.2.2", "fd00:2::2"])
def test_nobody_calls_a_job_and_answers_come_through(site: Site, address: str) -> None:
    assert site.world.connect(address, 80) == 0
    site.load()
    assert site.world.connect(address, 80) in REFUSED
    assert site.other.connect(address, 80) in REFUSED
    listeners = site.world.listen(2222)
    with listeners[0], listeners[1], site.job.connected("8.8.8.8", 2222) as asking:
        answering, _ = listeners[0].accept()
        with answering:
            answering.sendall(b"an answer")
            assert asking.recv(20) == b"an answer"
    assert site.host.connect(address, 80) == 0, "the machine itself may, and hears the answer"


def test_a_connection_from_before_the_rules_does_not_outlive_them(site: Site) -> None:
    with site.job.connected("10.1.2.3", 22) as old:
        site.load()
        old.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000)
        old.send(b"x")
        eventually(lambda: _error(old) != 0, "it ends", timeout_s=60)


def _error(connection: socket.socket) -> int:
    try:
        connection.send(b"x")
    except OSError as error:
        return error.errno or -1
    return 0


def _changed(before: str, after: str) -> Any:
    def change(rules: str) -> str:
        assert before in rules
        return rules.replace(before, after)

    return change


def test_a_job_holds_only_so_many_connections_and_takes_none_from_another(site: Site) -> None:
    site.load(_changed("ct count over 1024", "ct count over 5"))
    held = [site.job.connected("8.8.8.8", 443) for _ in range(5)]
    assert site.job.connect("8.8.8.8", 443) in REFUSED
    assert site.job.connect("2600::1", 443) in REFUSED
    assert site.other.connect("8.8.8.8", 443) == 0
    for connection in held:
        connection.close()


def test_a_job_begins_only_so_many_connections_at_a_time(site: Site) -> None:
    site.load(_changed("100/second burst 400", "1/hour burst 5"))
    assert [site.job.connect("8.8.8.8", 443) for _ in range(5)] == [0] * 5
    assert site.job.connect("8.8.8.8", 443) in REFUSED
    assert site.other.connect("8.8.8.8", 443) == 0


DOCKERS = """
table ip nat { chain DOCKER { type nat hook prerouting priority dstnat; policy accept; counter; }; }
table ip filter { chain FORWARD { type filter hook forward priority filter; policy accept; ip daddr 8.8.4.4 reject; }; }
table inet firewalld { set known { type ipv4_addr; elements = { 10.0.0.1 }; }; }
"""


def test_other_tables_are_untouched_and_still_decide(site: Site) -> None:
    site.host.run(f"{NFT} -f -", text=DOCKERS)
    before = site.host.run(f"{NFT} --stateless list ruleset")
    site.load()
    once = site.host.run(f"{NFT} --stateless list ruleset")
    site.load()
    assert site.host.run(f"{NFT} --stateless list ruleset") == once, "loading it again changes nothing"
    assert site.job.connect("8.8.4.4", 443) != 0, "what another table refuses stays refused"
    assert site.job.connect("8.8.8.8", 443) == 0
    site.host.run(f"{NFT} delete table inet gpunex")
    assert site.host.run(f"{NFT} --stateless list ruleset") == before


def test_other_interfaces_of_the_machine_are_not_ours(site: Site) -> None:
    site.load()
    assert site.host.connect("10.1.2.3", 80) == 0
    assert site.world.connect("5.5.5.5", 80) == 0
    table = RULES.read_text().partition("chain forward")[2]
    bases = [line for line in table.splitlines() if "jump from_job" in line or "jump to_" in line]
    assert len(bases) == 3 and all('name "gpx*"' in line for line in bases)


# The probe


def test_the_probe_knows_loaded_rules(site: Site) -> None:
    site.load()
    done = site.probe()
    assert (done.returncode, done.stdout) == (0, "guarded\n"), done.stderr
    site.load(web)
    assert site.probe().returncode == 0
    site.host.run(f"{NFT} delete table inet gpunex")
    done = site.probe()
    assert done.returncode == 1 and "192.0.2.1:9" in done.stdout


OTHERS = {
    "one that resets everything": "reject with tcp reset",
    "one that prohibits everything": "reject with icmpx type admin-prohibited",
    "one that drops everything": "drop",
}


@pytest.mark.parametrize("verdict", **ids(OTHERS))
def test_the_probe_is_not_taken_in_by_another_firewall(site: Site, verdict: str) -> None:
    chains = "".join(
        f'chain {hook} {{ type filter hook {hook} priority filter; iifname "gpx*" meta l4proto tcp {verdict}; }}\n'
        for hook in ("forward", "input")
    )
    site.host.run(f"{NFT} -f -", text=f"table inet theirs {{ {chains} }}")
    assert site.probe().returncode == 1


def test_the_probe_sees_a_hole_for_the_machine_itself(site: Site) -> None:
    site.load(_changed('iifname "gpx*" jump to_machine', 'iifname "other*" jump to_machine'))
    done = site.probe()
    assert done.returncode == 1 and "10.200.2.1:9" in done.stdout


def test_the_probe_fails_where_there_is_no_network(site: Site) -> None:
    lonely = Site.__new__(Site)
    lonely.job = type(site.job)()
    done = lonely.probe()
    lonely.job.close()
    assert done.returncode == 1


def test_the_default_gateway_is_read_from_the_kernels_table() -> None:
    head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
    assert gateway_read(head + "eth0 0002C80A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n") is None
    assert gateway_read(head + "eth0 00000000 0102C80A 0003 0 0 0 00000000 0 0 0\n") == "10.200.2.1"
    assert CANARY[0] == "192.0.2.1" and f"ip daddr {CANARY[0]} tcp dport {CANARY[1]} reject" in RULES.read_text()
