"""Whether the network rules for jobs (agent/egress.nft) are in force, asked from inside a job's own network.

An agent's container cannot see the packet filter of its host, so a short-lived container on a bridge like a job's tries
what a job must not be able to do. Standard library only.
"""

import errno
import os
import socket
import struct
from pathlib import Path

# The rules answer here with a reset, and nothing else on the internet does (RFC 5737): they are loaded.
CANARY = ("192.0.2.1", 9)
# What they refuse with an error of their own: a neighbour of the canary, a cloud's metadata, and the host itself.
REFUSED = (("192.0.2.1", 10), ("169.254.169.254", 80))
HOST_PORT = 9
_PATIENCE_S = 3.0
_ROUTES = Path("/proc/net/route")


def egress_unguarded() -> str | None:
    """Null when the rules are in force here, else what was possible, for a person.

    Loaded rules are known by a mix of answers: a reset at the canary, "prohibited" everywhere else. A network that
    resets, drops or prohibits everything gives one answer to all, and an open one connects.
    """
    found = _try(CANARY)
    if found != errno.ECONNREFUSED:
        return f"{_name(CANARY)}: found {_words(found)}, expected a reset by the rules"
    gateway = gateway_read(_ROUTES.read_text())
    if gateway is None:
        return "this network has no way out, so nothing can be tried"
    for target in (*REFUSED, (gateway, HOST_PORT)):
        found = _try(target)
        # ICMP "administratively prohibited" arrives as "no route to host".
        if found != errno.EHOSTUNREACH:
            return f"{_name(target)}: found {_words(found)}, expected a refusal by the rules"
    return None


def gateway_read(routes: str) -> str | None:
    """The default gateway in the kernel's table (/proc/net/route: hexadecimal, host byte order); null without one."""
    for line in routes.splitlines()[1:]:
        _, destination, gateway, *rest = line.split()
        if destination == "00000000" and rest[4] == "00000000":
            return socket.inet_ntoa(struct.pack("=L", int(gateway, 16)))
    return None


def _try(target: tuple[str, int]) -> int:
    """0, or the error of a TCP connection."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE_S)
        return connection.connect_ex(target)


def _name(target: tuple[str, int]) -> str:
    return f"{target[0]}:{target[1]}"


def _words(error: int) -> str:
    return "a connection" if error == 0 else os.strerror(error)
