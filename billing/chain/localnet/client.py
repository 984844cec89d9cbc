"""A caller of a local network's /control, for the tour, the demo data and the tests."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import httpx

from billing.chain.errors import ChainError
from billing.chain.rpc import tls_context

TIMEOUT_SECONDS = 60.0  # a hundred thousand blocks take a few seconds


class ControlFailed(ChainError):
    """The local network refused a control request, or there is none at this address."""


class LocalnetControl:
    """The levers of a local network. `endpoint` is "primary" or "second"."""

    def __init__(self, rpc_url: str) -> None:
        self._url = f"{rpc_url.rstrip('/')}/control"
        self._http = httpx.Client(timeout=TIMEOUT_SECONDS, verify=tls_context(), trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def facts(self) -> dict[str, Any]:
        """Addresses, key files, genesis hash, height, and the signatures waiting in the mempool."""
        return dict(self._call("facts"))

    def tick(self, blocks: int = 1) -> int:
        return int(self._call("tick", blocks=blocks))

    def rollback(self, blocks: int, *, keep_pending: bool = False) -> int:
        return int(self._call("rollback", blocks=blocks, keep_pending=keep_pending))

    def airdrop(self, address: str, lamports: int) -> str:
        return str(self._call("airdrop", address=address, lamports=lamports))

    def mint(self, address: str, amount_micro: int, *, mint: str | None = None) -> str:
        """USDC for a wallet (or `mint`, the decoy), its token account created if need be. Lands with the next block."""
        other = {} if mint is None else {"mint": mint}
        return str(self._call("mint", address=address, amount_micro=amount_micro, **other))

    def freeze(self, address: str, *, thaw: bool = False) -> str:
        return str(self._call("freeze", address=address, thaw=thaw))

    def hold(self) -> None:
        """Keep transactions in the mempool; they land after `release`, if they have not expired by then."""
        self._call("hold")

    def release(self) -> None:
        self._call("release")

    def fault(self, method: str, kind: str, *, endpoint: str = "primary", times: int = 1, seconds: float = 0) -> None:
        """The next `times` calls of `method` ("*": any) go wrong. Kinds: see `faults.FaultKind`."""
        self._call("fault", method=method, kind=kind, endpoint=endpoint, times=times, seconds=seconds)

    def clear_faults(self) -> None:
        self._call("clear_faults")

    def lag(self, blocks: int, *, endpoint: str = "second") -> None:
        self._call("lag", blocks=blocks, endpoint=endpoint)

    def prune(self, before_slot: int, *, endpoint: str = "second") -> None:
        """The node forgets all blocks before a slot."""
        self._call("prune", before_slot=before_slot, endpoint=endpoint)

    def fork(self, blocks: int) -> None:
        """The second node goes its own way, without the last `blocks` blocks."""
        self._call("fork", blocks=blocks)

    def heal(self) -> None:
        """The second node is well again."""
        self._call("heal")

    def calls(self, *, endpoint: str = "primary") -> dict[str, int]:
        """How often each method was called."""
        return dict(self._call("calls", endpoint=endpoint))

    def faults_met(self) -> dict[str, int]:
        """How often each fault came true, on both nodes, by "method kind"."""
        return dict(self._call("met"))

    def _call(self, action: str, **fields: Any) -> Any:
        try:
            reply = self._http.post(self._url, json={"action": action} | fields)
            body = reply.json()
        except (httpx.HTTPError, ValueError) as error:
            raise ControlFailed(f"{action}: no local network at {self._url} ({error!r})") from error
        if reply.status_code != httpx.codes.OK:
            raise ControlFailed(f"{action}: {body.get('error')}")
        return body["result"]
