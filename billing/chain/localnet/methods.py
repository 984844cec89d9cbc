"""The JSON-RPC methods, with the shapes, limits and error codes of an agave node.

Each takes the node asked, the call's parameters and the network (for the airdrop). What an agave node would answer with
an error is a `MethodError` here.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from itertools import islice, takewhile
from typing import Any

from solders.signature import Signature
from solders.transaction import VersionedTransaction

from billing.chain import errors
from billing.chain.instructions import PACKET_SIZE, SIGNATURE_FEE_LAMPORTS
from billing.chain.localnet import encoding
from billing.chain.localnet.cluster import MAX_PROCESSING_AGE, Landed, height_before, slot_of
from billing.chain.localnet.network import Localnet
from billing.chain.localnet.node import COMMITMENTS, Node
from billing.chain.localnet.params import MethodError, Params

API_VERSION = "3.0.0"
PACKET_SIZE_BASE64 = 1_644
HISTORY_PAGE = 1_000
STATUSES_MAX = 256
SLOTS_PER_EPOCH = 432_000

Method = Callable[[Localnet, Node, Params], Any]
METHODS: dict[str, Method] = {}


def method(name: str) -> Callable[[Method], Method]:
    def register(function: Method) -> Method:
        METHODS[name] = function
        return function

    return register


def call(network: Localnet, node: Node, name: str, params: list[Any]) -> Any:
    """Answer one call. Raises MethodError."""
    if name not in METHODS:
        raise MethodError(errors.CODE_METHOD_NOT_FOUND, "Method not found")
    return METHODS[name](network, node, Params(params))


def _with_context(node: Node, commitment: str, value: Any) -> dict[str, Any]:
    return {"context": {"apiVersion": API_VERSION, "slot": node.slot_at(commitment)}, "value": value}


# The node and its clock


@method("getHealth")
def get_health(network: Localnet, node: Node, params: Params) -> Any:
    return "ok"


@method("getVersion")
def get_version(network: Localnet, node: Node, params: Params) -> Any:
    return {"solana-core": API_VERSION, "feature-set": 1}


@method("getGenesisHash")
def get_genesis_hash(network: Localnet, node: Node, params: Params) -> Any:
    return node.cluster.genesis.hash


@method("getSlot")
def get_slot(network: Localnet, node: Node, params: Params) -> Any:
    return node.slot_at(params.commitment(node))


@method("getBlockHeight")
def get_block_height(network: Localnet, node: Node, params: Params) -> Any:
    return node.height_at(params.commitment(node))


@method("getEpochInfo")
def get_epoch_info(network: Localnet, node: Node, params: Params) -> Any:
    commitment = params.commitment(node)
    epoch, index = divmod(node.slot_at(commitment), SLOTS_PER_EPOCH)
    return {
        "absoluteSlot": node.slot_at(commitment),
        "blockHeight": node.height_at(commitment),
        "epoch": epoch,
        "slotIndex": index,
        "slotsInEpoch": SLOTS_PER_EPOCH,
        "transactionCount": len(node.cluster.landed),
    }


@method("getFirstAvailableBlock")
@method("minimumLedgerSlot")
def get_first_available_block(network: Localnet, node: Node, params: Params) -> Any:
    return slot_of(node.first_height)


@method("getLatestBlockhash")
def get_latest_blockhash(network: Localnet, node: Node, params: Params) -> Any:
    commitment = params.commitment(node)
    height = node.height_at(commitment)
    value = {
        "blockhash": node.cluster.blockhash(height),
        "lastValidBlockHeight": height + MAX_PROCESSING_AGE,
    }
    return _with_context(node, commitment, value)


@method("isBlockhashValid")
def is_blockhash_valid(network: Localnet, node: Node, params: Params) -> Any:
    commitment = params.commitment(node)
    valid = node.cluster.can_process(params.text(0, "blockhash"), node.height_at(commitment))
    return _with_context(node, commitment, valid)


@method("getBlockTime")
def get_block_time(network: Localnet, node: Node, params: Params) -> Any:
    height = height_before(params.integer(0, "slot", 0, 2**63))
    for block in reversed(node.cluster.blocks):
        if block.height == height:
            return block.time
    raise MethodError(errors.CODE_BLOCK_NOT_AVAILABLE, "Block not available for slot (empty blocks keep no time)")


@method("getRecentPrioritizationFees")
def get_recent_prioritization_fees(network: Localnet, node: Node, params: Params) -> Any:
    return [{"slot": node.slot_at("processed"), "prioritizationFee": 0}]


@method("getFeeForMessage")
def get_fee_for_message(network: Localnet, node: Node, params: Params) -> Any:
    return _with_context(node, params.commitment(node), SIGNATURE_FEE_LAMPORTS)


# Accounts


@method("getBalance")
def get_balance(network: Localnet, node: Node, params: Params) -> Any:
    commitment = params.commitment(node)
    account = node.account(params.address(0), commitment)
    return _with_context(node, commitment, 0 if account is None else account.lamports)


@method("getAccountInfo")
def get_account_info(network: Localnet, node: Node, params: Params) -> Any:
    params.require_base64()
    commitment = params.commitment(node)
    return _with_context(node, commitment, encoding.account(node.account(params.address(0), commitment)))


@method("getMultipleAccounts")
def get_multiple_accounts(network: Localnet, node: Node, params: Params) -> Any:
    params.require_base64()
    commitment = params.commitment(node)
    keys = [params.parse_address(text) for text in params.texts(0, "addresses", 100)]
    return _with_context(node, commitment, [encoding.account(node.account(key, commitment)) for key in keys])


@method("getMinimumBalanceForRentExemption")
def get_minimum_balance(network: Localnet, node: Node, params: Params) -> Any:
    return node.cluster.bank.minimum_balance(params.integer(0, "size", 0, 10 * 2**20))


@method("getTokenAccountBalance")
def get_token_account_balance(network: Localnet, node: Node, params: Params) -> Any:
    commitment = params.commitment(node)
    account = node.account(params.address(0), commitment)
    if account is None:
        raise MethodError(errors.CODE_INVALID_PARAMS, "Invalid param: could not find account")
    state = encoding.token_state(account)
    if state is None:
        raise MethodError(errors.CODE_INVALID_PARAMS, "Invalid param: not a Token account")
    decimals = encoding.mint_decimals(node.account(state.mint, commitment))
    return _with_context(node, commitment, encoding.token_amount(state.amount, decimals))


@method("getTokenAccountsByOwner")
def get_token_accounts_by_owner(network: Localnet, node: Node, params: Params) -> Any:
    commitment, owner, mint = params.commitment(node), params.address(0), params.mint_filter(1)
    found = []
    for key, account in node.cluster.bank.accounts(node.height_at(commitment)):
        state = encoding.token_state(account)
        if state is not None and state.owner == owner and mint in (None, state.mint):
            found.append({"pubkey": str(key), "account": encoding.account(account)})
    return _with_context(node, commitment, found)


@method("requestAirdrop")
def request_airdrop(network: Localnet, node: Node, params: Params) -> Any:
    return network.airdrop(str(params.address(0)), params.integer(1, "lamports", 1, 2**63))


# Transactions


@method("simulateTransaction")
def simulate_transaction(network: Localnet, node: Node, params: Params) -> Any:
    commitment = params.commitment(node)
    transaction = _decode(params)
    if params.config.get("sigVerify"):
        _verify(transaction)
    any_blockhash = bool(params.config.get("replaceRecentBlockhash"))
    return _with_context(node, commitment, _simulate(node, transaction, commitment, any_blockhash=any_blockhash))


@method("sendTransaction")
def send_transaction(network: Localnet, node: Node, params: Params) -> Any:
    transaction = _decode(params)
    commitment = params.checked_commitment(params.config.get("preflightCommitment", "finalized"))
    _verify(transaction)
    if not params.config.get("skipPreflight"):
        simulation = _simulate(node, transaction, commitment, any_blockhash=False)
        if simulation["err"] is not None:
            text = PREFLIGHT_TEXTS.get(str(simulation["err"]), f"Error processing: {simulation['err']}")
            raise MethodError(errors.CODE_PREFLIGHT_FAILED, f"Transaction simulation failed: {text}", simulation)
    return node.cluster.submit(transaction)


PREFLIGHT_TEXTS = {
    "AlreadyProcessed": "This transaction has already been processed",
    "BlockhashNotFound": "Blockhash not found",
    "AccountNotFound": "Attempt to debit an account but found no record of a prior credit.",
}


@method("getSignatureStatuses")
def get_signature_statuses(network: Localnet, node: Node, params: Params) -> Any:
    statuses = []
    for signature in params.texts(0, "signatures", STATUSES_MAX):
        _check_signature(signature)
        found = node.landed(signature, "processed")
        known = found is not None and (params.config.get("searchTransactionHistory") or node.in_status_cache(found))
        statuses.append(_status(node, found) if found is not None and known else None)
    return _with_context(node, "processed", statuses)


@method("getTransaction")
def get_transaction(network: Localnet, node: Node, params: Params) -> Any:
    commitment, form = params.commitment(node, history=True), params.config.get("encoding", "json")
    signature = params.text(0, "signature")
    _check_signature(signature)
    if form not in ("json", "base64"):
        raise MethodError(errors.CODE_INVALID_PARAMS, f"Invalid param: encoding {form!r}, allowed json or base64")
    found = node.landed(signature, commitment)
    if found is None:
        return None
    version = encoding.version_of(found.transaction)
    highest = params.config.get("maxSupportedTransactionVersion")
    if version != "legacy" and highest is None:
        raise MethodError(
            errors.CODE_VERSION_UNSUPPORTED,
            "Transaction version (0) is not supported by the requesting client. Please try the request again with the "
            'following configuration parameter: "maxSupportedTransactionVersion": 0',
        )
    body = encoding.transaction_json(found.transaction) if form == "json" else [_base64(found.transaction), "base64"]
    answer = {"slot": found.slot, "blockTime": found.time, "transaction": body, "meta": _meta(found)}
    return answer if highest is None else answer | {"version": version}


@method("getSignaturesForAddress")
def get_signatures_for_address(network: Localnet, node: Node, params: Params) -> Any:
    commitment = params.commitment(node, history=True)
    limit = params.config.get("limit", HISTORY_PAGE)
    if not isinstance(limit, int) or not 0 < limit <= HISTORY_PAGE:
        raise MethodError(errors.CODE_INVALID_PARAMS, f"Invalid limit; max {HISTORY_PAGE}")
    history: Iterable[Landed] = node.history(str(params.address(0)), commitment)
    before, until = params.config.get("before"), params.config.get("until")
    if before is not None:
        # As agave does it: paging from a signature the node does not know gives an empty page, not an error.
        start = node.landed(before, commitment)
        history = () if start is None else _after(history, start)
    if until is not None:
        history = takewhile(lambda entry: entry.signature != until, history)
    return [
        {
            "signature": entry.signature,
            "slot": entry.slot,
            "err": entry.execution.error,
            "memo": entry.memo,
            "blockTime": entry.time,
            "confirmationStatus": node.commitment_of(entry),
        }
        for entry in islice(history, limit)
    ]


def _after(history: Iterable[Landed], start: Landed) -> Iterable[Landed]:
    """What is older than `start`, which need not be of this address."""
    entries = list(history)
    for index, entry in enumerate(entries):
        if entry.signature == start.signature:
            return entries[index + 1 :]
    return [entry for entry in entries if entry.height < start.height]


def _decode(params: Params) -> VersionedTransaction:
    form = params.config.get("encoding", "base58")
    try:
        text = params.text(0, "transaction")
        raw = base64.b64decode(text, validate=True) if form == "base64" else encoding.base58_decode(text)
        if len(raw) > PACKET_SIZE:
            raise MethodError(
                errors.CODE_INVALID_PARAMS,
                f"{form} encoded solana_transaction::versioned::VersionedTransaction too large: {len(raw)} bytes "
                f"(max: encoded/raw {PACKET_SIZE_BASE64}/{PACKET_SIZE})",
            )
        transaction = VersionedTransaction.from_bytes(raw)
    except ValueError as error:
        raise MethodError(errors.CODE_INVALID_PARAMS, f"failed to deserialize transaction: {error}") from error
    if getattr(transaction.message, "address_table_lookups", None):
        raise MethodError(errors.CODE_INVALID_PARAMS, "this local network has no address lookup tables")
    return transaction


def _verify(transaction: VersionedTransaction) -> None:
    if not all(transaction.verify_with_results()):
        raise MethodError(errors.CODE_SIGNATURE_INVALID, "Transaction signature verification failure")


def _check_signature(text: str) -> None:
    try:
        Signature.from_string(text)
    except ValueError as error:
        raise MethodError(errors.CODE_INVALID_PARAMS, f"Invalid param: {error}") from error


def _simulate(node: Node, transaction: VersionedTransaction, commitment: str, *, any_blockhash: bool) -> dict[str, Any]:
    height = node.height_at(commitment)
    error: Any
    logs: list[str] = []
    units = 0
    if not any_blockhash and not node.cluster.can_process(str(transaction.message.recent_blockhash), height):
        error = "BlockhashNotFound"
    elif node.landed(str(transaction.signatures[0]), commitment) is not None:
        error = "AlreadyProcessed"
    else:
        error, logs, units = node.cluster.bank.simulate(transaction, height=height)
    return {"err": error, "logs": logs, "accounts": None, "unitsConsumed": units, "returnData": None}


def _status(node: Node, found: Landed) -> dict[str, Any]:
    commitment = node.commitment_of(found)
    return {
        "slot": found.slot,
        "confirmations": None if commitment == COMMITMENTS[-1] else node.height_at("processed") - found.height,
        "err": found.execution.error,
        "status": encoding.status_of(found.execution.error),
        "confirmationStatus": commitment,
    }


def _meta(found: Landed) -> dict[str, Any]:
    execution = found.execution
    return {
        "err": execution.error,
        "status": encoding.status_of(execution.error),
        "fee": execution.fee,
        "preBalances": execution.lamports[0],
        "postBalances": execution.lamports[1],
        "preTokenBalances": execution.tokens[0],
        "postTokenBalances": execution.tokens[1],
        "innerInstructions": execution.inner_instructions,
        "logMessages": execution.logs,
        "loadedAddresses": {"writable": [], "readonly": []},
        "computeUnitsConsumed": execution.units,
        "rewards": [],
    }


def _base64(transaction: VersionedTransaction) -> str:
    return base64.b64encode(bytes(transaction)).decode()
