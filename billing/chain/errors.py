"""What can go wrong between us and the chain, by name.

The important line runs between `RpcUnavailable` and everything else: an unavailable node has *said nothing*, so nothing
may be concluded about a transaction from it.
"""

from __future__ import annotations

from typing import Any

# JSON-RPC codes a Solana node answers with (agave, rpc-client-api/src/custom_error.rs).
CODE_PREFLIGHT_FAILED = -32002
CODE_SIGNATURE_INVALID = -32003
CODE_BLOCK_NOT_AVAILABLE = -32004
CODE_NODE_UNHEALTHY = -32005
CODE_VERSION_UNSUPPORTED = -32015
CODE_CONTEXT_SLOT_NOT_REACHED = -32016
CODE_INVALID_REQUEST = -32600
CODE_METHOD_NOT_FOUND = -32601
CODE_INVALID_PARAMS = -32602
CODE_PARSE_ERROR = -32700


class ChainError(Exception):
    """Base of every error of this package."""


class RpcError(ChainError):
    """A call to a node did not give a result."""


class RpcUnavailable(RpcError):
    """Time-out, transport failure, HTTP error or unreadable reply. Proves nothing: the call may have had its effect."""


class RpcRefused(RpcError):
    """The node answered with a JSON-RPC error.

    Also this proves nothing about a transaction: `BlockhashNotFound` may come from a node that lags behind, and
    "already processed" means that somebody should look.

    Args:
        code: the JSON-RPC error code.
        message: the node's text.
        data: the node's `error.data`, or None.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"node refused ({code}): {message}")
        self.code = code
        self.message = message
        self.data = data

    @property
    def transaction_error(self) -> str | None:
        """The preflight's transaction error, such as "BlockhashNotFound", or None."""
        error = self.data.get("err") if isinstance(self.data, dict) else None
        return error if isinstance(error, str) else None

    @property
    def already_processed(self) -> bool:
        """The node knows these bytes already. It means: look at the status."""
        return self.transaction_error == "AlreadyProcessed"

    @property
    def blockhash_not_found(self) -> bool:
        """The node does not know the blockhash: expired, or the node is behind. It cannot tell which."""
        return self.transaction_error == "BlockhashNotFound"


class TransactionInvalid(ChainError):
    """A transaction cannot be built from these values, or is larger than a packet."""


class PayoutShapeRefused(ChainError):
    """The message is not byte for byte a payout as we build it, or goes beyond the signer's limits.

    Args:
        reason: a stable name, such as "amount_over_limit".
        detail: what was found and what is allowed.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class KeyFileRefused(ChainError):
    """A private key file is missing, unreadable, not ours, or open to others."""


class HistoryIncomplete(ChainError):
    """A node did not show the history back to where we had read. Nothing may be skipped because of it: read again."""
