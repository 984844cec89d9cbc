"""POST /control: what tests and the guided tour may do to the network. It is not part of Solana."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from solders.pubkey import Pubkey

from billing.chain.localnet.cluster import height_before
from billing.chain.localnet.faults import ANY_METHOD, TIMES_MAX, Fault, FaultKind
from billing.chain.localnet.methods import METHODS
from billing.chain.localnet.network import Localnet
from billing.chain.localnet.node import Node

TICKS_MAX = 100_000
SLOW_SECONDS_MAX = 60
AMOUNT_MAX = 10**15


class ControlRefused(Exception):
    """A control request that cannot be followed; the text names field, found and allowed."""


Action = Callable[[Localnet, dict[str, Any]], Any]


def control(network: Localnet, request: Any) -> Any:
    """Follow one request `{"action": name, …}` and give its result.

    Raises:
        ControlRefused: nothing was done.
    """
    name = request.get("action") if isinstance(request, dict) else None
    if name not in ACTIONS:
        raise ControlRefused(f"action: found {name!r}, allowed {', '.join(ACTIONS)}")
    with network.lock:
        return ACTIONS[name](network, request)


def _facts(network: Localnet, request: dict[str, Any]) -> Any:
    return network.facts() | {"height": network.cluster.height, "mempool": list(network.cluster.mempool)}


def _tick(network: Localnet, request: dict[str, Any]) -> Any:
    return network.tick(_integer(request, "blocks", 1, TICKS_MAX, 1))


def _rollback(network: Localnet, request: dict[str, Any]) -> Any:
    try:
        return network.rollback(
            _integer(request, "blocks", 1, TICKS_MAX), keep_pending=bool(request.get("keep_pending"))
        )
    except ValueError as error:
        raise ControlRefused(str(error)) from error


def _airdrop(network: Localnet, request: dict[str, Any]) -> Any:
    return network.airdrop(_address(request, "address"), _integer(request, "lamports", 1, AMOUNT_MAX))


def _mint(network: Localnet, request: dict[str, Any]) -> Any:
    mints = (network.roles["mint"], network.roles["decoy_mint"])
    mint = request.get("mint", mints[0])
    if mint not in mints:
        raise ControlRefused(f"mint: found {mint!r}, allowed {' or '.join(mints)}")
    return network.mint(_address(request, "address"), _integer(request, "amount_micro", 1, AMOUNT_MAX), mint=mint)


def _freeze(network: Localnet, request: dict[str, Any]) -> Any:
    return network.freeze(_address(request, "address"), thaw=bool(request.get("thaw")))


def _hold(network: Localnet, request: dict[str, Any]) -> Any:
    network.cluster.holding = True


def _release(network: Localnet, request: dict[str, Any]) -> Any:
    network.cluster.holding = False


def _fault(network: Localnet, request: dict[str, Any]) -> Any:
    method, kind, seconds = request.get("method"), request.get("kind"), request.get("seconds", 0)
    if method != ANY_METHOD and method not in METHODS:
        raise ControlRefused(f"method: found {method!r}, allowed {ANY_METHOD} or one of {', '.join(sorted(METHODS))}")
    if kind not in set(FaultKind):
        raise ControlRefused(f"kind: found {kind!r}, allowed {', '.join(FaultKind)}")
    if not isinstance(seconds, int | float) or not 0 <= seconds <= SLOW_SECONDS_MAX:
        raise ControlRefused(f"seconds: found {seconds!r}, allowed 0 to {SLOW_SECONDS_MAX}")
    times = _integer(request, "times", 1, TIMES_MAX, 1)
    _node(network, request).faults.add(str(method), Fault(FaultKind(kind), seconds), times)


def _clear_faults(network: Localnet, request: dict[str, Any]) -> Any:
    network.primary.faults.clear()
    network.second.faults.clear()


def _lag(network: Localnet, request: dict[str, Any]) -> Any:
    _node(network, request).lag = _integer(request, "blocks", 0, TICKS_MAX)


def _prune(network: Localnet, request: dict[str, Any]) -> Any:
    _node(network, request).first_height = height_before(_integer(request, "before_slot", 1, 2**62) - 1) + 1


def _fork(network: Localnet, request: dict[str, Any]) -> Any:
    network.fork_second(_integer(request, "blocks", 0, TICKS_MAX))


def _heal(network: Localnet, request: dict[str, Any]) -> Any:
    network.heal_second()


def _calls(network: Localnet, request: dict[str, Any]) -> Any:
    return dict(_node(network, request).calls)


def _met(network: Localnet, request: dict[str, Any]) -> Any:
    return dict(network.primary.faults.met + network.second.faults.met)


ACTIONS: dict[str, Action] = {
    "facts": _facts,
    "tick": _tick,
    "rollback": _rollback,
    "airdrop": _airdrop,
    "mint": _mint,
    "freeze": _freeze,
    "hold": _hold,
    "release": _release,
    "fault": _fault,
    "clear_faults": _clear_faults,
    "lag": _lag,
    "prune": _prune,
    "fork": _fork,
    "heal": _heal,
    "calls": _calls,
    "met": _met,
}


def _node(network: Localnet, request: dict[str, Any]) -> Node:
    nodes = {"primary": network.primary, "second": network.second}
    name = request.get("endpoint", "primary")
    if name not in nodes:
        raise ControlRefused(f"endpoint: found {name!r}, allowed {' or '.join(nodes)}")
    return nodes[name]


def _integer(request: dict[str, Any], name: str, low: int, high: int, default: int | None = None) -> int:
    value = request.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ControlRefused(f"{name}: found {value!r}, allowed {low} to {high}")
    return value


def _address(request: dict[str, Any], name: str) -> str:
    value = request.get(name)
    try:
        return str(Pubkey.from_string(str(value)))
    except ValueError:
        raise ControlRefused(f"{name}: found {value!r}, a base58 address of 32 bytes is needed") from None
