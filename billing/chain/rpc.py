"""A small synchronous Solana JSON-RPC client.

It does one thing per call and never retries: whether a lost answer may be asked for again is a decision about money and
belongs to the caller. Every call names its commitment. Two endpoints are two clients; the caller compares them.
"""

from __future__ import annotations

import base64
import itertools
import ssl
from collections.abc import Callable, Sequence
from functools import cache
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import httpx

from billing.chain.errors import CODE_INVALID_PARAMS, RpcRefused, RpcUnavailable
from billing.chain.records import (
    AccountInfo,
    AddressSignature,
    Commitment,
    LatestBlockhash,
    SignatureStatuses,
    Simulation,
    TokenBalance,
    TransactionRecord,
    error_text,
    parse_account,
    parse_address_signature,
    parse_status,
    parse_transaction,
)

DEFAULT_TIMEOUT_SECONDS = 10.0
HISTORY_PAGE = 1_000  # the most signatures a node returns per call
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
STATUSES_MAX = 256  # the most signatures a node looks up per call

T = TypeVar("T")


@cache
def tls_context() -> ssl.SSLContext:
    """One for all clients of the process: loading the certificate authorities takes longer than many a call."""
    return httpx.create_ssl_context()


class RpcClient:
    """One endpoint. Safe to share between threads; make one per process, after a fork.

    Every method raises `RpcUnavailable` when the node gave no usable answer and `RpcRefused` when it answered with an
    error. Neither says anything about the fate of a transaction.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._url = url
        self.name = urlsplit(url).netloc.rpartition("@")[2]  # for messages: a URL's path or query may hold an API key
        self._ids = itertools.count(1)
        self._http = httpx.Client(
            timeout=timeout_seconds,
            transport=transport,
            verify=tls_context(),
            follow_redirects=False,
            # A proxy from the environment is for the world outside, not for a node on this machine.
            trust_env=urlsplit(url).hostname not in LOOPBACK_HOSTS,
        )

    def __repr__(self) -> str:
        return f"<RpcClient {self.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # The network and its clock

    def genesis_hash(self) -> str:
        """The network's name: pinned at start-up, so that a test key never signs for mainnet."""
        return self._call("getGenesisHash", [], _text)

    def latest_blockhash(self, *, commitment: Commitment) -> LatestBlockhash:
        def parse(result: Any) -> LatestBlockhash:
            value = result["value"]
            return LatestBlockhash(str(value["blockhash"]), int(value["lastValidBlockHeight"]), _context_slot(result))

        return self._call("getLatestBlockhash", [{"commitment": commitment}], parse)

    def block_height(self, *, commitment: Commitment) -> int:
        """How many blocks there are: the scale of `last_valid_block_height`. Smaller than the slot, slots are skipped."""
        return self._call("getBlockHeight", [{"commitment": commitment}], int)

    def slot(self, *, commitment: Commitment) -> int:
        return self._call("getSlot", [{"commitment": commitment}], int)

    def minimum_ledger_slot(self) -> int:
        """The oldest slot of which the node still knows anything."""
        return self._call("minimumLedgerSlot", [], int)

    def first_available_block(self) -> int:
        """The oldest slot whose block, and so whose transactions, the node still has."""
        return self._call("getFirstAvailableBlock", [], int)

    # Transactions

    def signature_statuses(self, signatures: Sequence[str], *, search_history: bool) -> SignatureStatuses:
        """Up to 256 statuses. Without `search_history` a node looks back a few hundred slots only."""
        if len(signatures) > STATUSES_MAX:
            raise ValueError(f"signatures: found {len(signatures)}, allowed {STATUSES_MAX} per call")

        def parse(result: Any) -> SignatureStatuses:
            pairs = zip(signatures, result["value"], strict=True)
            return SignatureStatuses(_context_slot(result), tuple(parse_status(*pair) for pair in pairs))

        params = [list(signatures), {"searchTransactionHistory": search_history}]
        return self._call("getSignatureStatuses", params, parse)

    def transaction(self, signature: str, *, commitment: Commitment) -> TransactionRecord | None:
        """A transaction in a block of at least `commitment`, or None if the node knows none (yet, or any longer)."""
        options = {"commitment": commitment, "encoding": "base64", "maxSupportedTransactionVersion": 0}
        return self._call(
            "getTransaction",
            [signature, options],
            lambda result: None if result is None else parse_transaction(signature, result),
        )

    def signatures_for_address(
        self,
        address: str,
        *,
        commitment: Commitment,
        before: str | None = None,
        until: str | None = None,
        limit: int = HISTORY_PAGE,
    ) -> tuple[AddressSignature, ...]:
        """A page of an address's history, newest first, both ends excluded.

        A node that does not know `before` answers with an empty page, one that does not know `until` with everything.
        """
        options: dict[str, Any] = {"commitment": commitment, "limit": limit}
        if before is not None:
            options["before"] = before
        if until is not None:
            options["until"] = until
        return self._call(
            "getSignaturesForAddress",
            [address, options],
            lambda result: tuple(parse_address_signature(entry) for entry in result),
        )

    def simulate(self, raw: bytes, *, commitment: Commitment, verify_signatures: bool = True) -> Simulation:
        """Dry-run a transaction on the state of `commitment`, its blockhash checked too.

        Without `verify_signatures` the transaction may be unsigned: so a payout is tried before it is signed, and no
        node ever sees signed bytes that are not in our books.
        """

        def parse(result: Any) -> Simulation:
            value = result["value"]
            return Simulation(
                error=error_text(value["err"]),
                logs=tuple(value["logs"] or ()),
                units_consumed=int(value["unitsConsumed"] or 0),
                context_slot=_context_slot(result),
            )

        options = {"commitment": commitment, "encoding": "base64", "sigVerify": verify_signatures}
        return self._call("simulateTransaction", [_encode(raw), options], parse)

    def send(self, raw: bytes, *, skip_preflight: bool, preflight_commitment: Commitment) -> str:
        """Hand the bytes to the node, once (`maxRetries` 0). A signature in return means "received", not "landed"."""
        options = {
            "encoding": "base64",
            "maxRetries": 0,
            "skipPreflight": skip_preflight,
            "preflightCommitment": preflight_commitment,
        }
        return self._call("sendTransaction", [_encode(raw), options], _text)

    # Accounts

    def account_info(self, address: str, *, commitment: Commitment) -> AccountInfo | None:
        """An account, or None where nothing was ever paid in."""
        options = {"commitment": commitment, "encoding": "base64"}
        return self._call(
            "getAccountInfo",
            [address, options],
            lambda result: parse_account(address, _context_slot(result), result["value"]),
        )

    def balance(self, address: str, *, commitment: Commitment) -> int:
        """Lamports, 0 for an account that does not exist."""
        return self._call("getBalance", [address, {"commitment": commitment}], lambda result: int(result["value"]))

    def token_account_balance(self, account: str, *, commitment: Commitment) -> TokenBalance | None:
        """A token account's amount, or None if there is no such account."""

        def parse(result: Any) -> TokenBalance:
            value = result["value"]
            return TokenBalance(int(value["amount"]), int(value["decimals"]), _context_slot(result))

        try:
            return self._call("getTokenAccountBalance", [account, {"commitment": commitment}], parse)
        except RpcRefused as refusal:
            if refusal.code == CODE_INVALID_PARAMS and "could not find account" in refusal.message:
                return None
            raise

    def _call(self, method: str, params: list[Any], parse: Callable[[Any], T]) -> T:
        request_id = next(self._ids)
        body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        try:
            response = self._http.post(self._url, json=body)
        except httpx.HTTPError as error:
            raise RpcUnavailable(f"{self.name} {method}: {type(error).__name__}") from error
        if response.status_code != httpx.codes.OK:
            raise RpcUnavailable(f"{self.name} {method}: HTTP {response.status_code}")
        try:
            reply = response.json()
            if reply["id"] != request_id:
                raise ValueError("the reply answers another request")
            failure = reply.get("error")
            if failure is None:
                return parse(reply["result"])
            refusal = RpcRefused(int(failure["code"]), str(failure["message"]), failure.get("data"))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RpcUnavailable(f"{self.name} {method}: unreadable reply ({error!r})") from error
        raise refusal


def _text(result: Any) -> str:
    if not isinstance(result, str):
        raise TypeError(f"found {type(result).__name__}, expected a string")
    return result


def _context_slot(result: Any) -> int:
    return int(result["context"]["slot"])


def _encode(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
