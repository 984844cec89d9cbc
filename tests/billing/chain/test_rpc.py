"""The client against a node that misbehaves: what it reports, what it concludes (nothing), that it asks once."""

from __future__ import annotations

import socket
from contextlib import suppress

import httpx
import pytest

from billing.chain.errors import RpcRefused, RpcUnavailable
from billing.chain.rpc import RpcClient
from tests.billing.chain.world import USDC, new_wallet

# What the client sees, and whether the payout landed all the same.
FAULTS_OF_SEND = [
    ("drop_request", RpcUnavailable, False),
    ("drop_response", RpcUnavailable, True),
    ("http_500", RpcUnavailable, False),
    ("http_503", RpcUnavailable, False),
    ("http_503_after", RpcUnavailable, True),
    ("http_429", RpcUnavailable, False),
    ("garbage", RpcUnavailable, True),
    ("node_behind", RpcRefused, False),
    ("lose_transaction", None, False),
    ("slow", RpcUnavailable, True),
]


@pytest.mark.parametrize(("kind", "error", "lands"), FAULTS_OF_SEND, ids=[case[0] for case in FAULTS_OF_SEND])
def test_a_fault_is_named_and_the_call_is_not_repeated(world, kind, error, lands):
    wallet = new_wallet()
    payout = world.payout(wallet)
    world.control.fault("sendTransaction", kind, seconds=30 if kind == "slow" else 0)
    with RpcClient(world.running.rpc, timeout_seconds=0.3 if kind == "slow" else 5) as rpc:
        if error is None:
            assert rpc.send(payout.raw, skip_preflight=False, preflight_commitment="confirmed") == payout.signature
        else:
            with pytest.raises(error):
                rpc.send(payout.raw, skip_preflight=False, preflight_commitment="confirmed")
    assert world.control.calls()["sendTransaction"] == 1
    world.finalize()
    assert world.usdc(wallet) == (USDC if lands else 0)
    assert (world.status(payout.signature) is not None) is lands


def test_after_each_fault_the_same_bytes_can_be_sent_again_and_pay_once(world):
    wallet = new_wallet()
    payout = world.payout(wallet)
    for kind, _, _ in FAULTS_OF_SEND:
        world.control.fault("sendTransaction", kind)
        with suppress(RpcUnavailable, RpcRefused):
            world.send(payout, skip_preflight=True)
        world.control.tick()
    world.send(payout, skip_preflight=True)
    world.finalize()
    assert world.usdc(wallet) == USDC


def test_faults_wait_for_their_method_and_their_endpoint(world):
    world.control.fault("getSlot", "http_500", endpoint="second")
    world.control.fault("*", "http_500", endpoint="second", times=2)
    world.rpc.slot(commitment="finalized")
    for ask in (world.second.block_height, world.second.slot, world.second.slot):
        with pytest.raises(RpcUnavailable):
            ask(commitment="finalized")
    world.second.slot(commitment="finalized")
    world.control.fault("*", "http_500", times=5)
    world.control.clear_faults()
    world.rpc.slot(commitment="finalized")


def test_nobody_at_home_is_unavailable():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: the connection is refused
        with RpcClient(f"http://127.0.0.1:{taken.getsockname()[1]}") as rpc, pytest.raises(RpcUnavailable):
            rpc.genesis_hash()


def test_a_key_in_the_url_stays_out_of_messages():
    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no", request=request)

    url = "https://user:secret@node.example/v1/secret?key=secret"
    rpc = RpcClient(url, transport=httpx.MockTransport(fail))
    with pytest.raises(RpcUnavailable) as failure:
        rpc.genesis_hash()
    assert "node.example" in str(failure.value)
    assert "secret" not in str(failure.value) + repr(rpc)


def answering(**reply):
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1} | reply)

    return RpcClient("http://node.example", transport=httpx.MockTransport(answer))


@pytest.mark.parametrize(
    "reply",
    [{}, {"result": None}, {"result": 5}, {"id": 2, "result": "x"}, {"error": "text"}, {"error": {"code": 1}}],
    ids=["no result", "null", "a number", "of another call", "a text for an error", "an error without message"],
)
def test_a_reply_of_another_form_is_unavailable(reply):
    with pytest.raises(RpcUnavailable, match="unreadable"):
        answering(**reply).genesis_hash()


@pytest.mark.parametrize(
    "value",
    [None, {}, {"slot": 1, "transaction": ["!", "base64"], "meta": {}}, {"slot": 1, "transaction": ["", "json"]}],
)
def test_a_transaction_that_cannot_be_read_is_not_a_missing_transaction(value):
    rpc = answering(result=value)
    if value is None:
        assert rpc.transaction("x", commitment="finalized") is None
        return
    with pytest.raises(RpcUnavailable, match="unreadable"):
        rpc.transaction("x", commitment="finalized")


def test_a_node_that_answers_with_another_transaction_is_not_believed(world):
    first, second = world.payout(new_wallet()), world.payout(new_wallet())
    for payout in (first, second):
        world.send(payout)
    world.finalize()
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "getTransaction",
        "params": [second.signature, {"encoding": "base64"}],
    }
    answer = httpx.post(world.running.rpc, json=body).json()
    with pytest.raises(RpcUnavailable, match="unreadable"):
        answering(**answer).transaction(first.signature, commitment="finalized")


def test_statuses_must_be_as_many_as_asked_for():
    with pytest.raises(RpcUnavailable, match="unreadable"):
        answering(result={"context": {"slot": 1}, "value": []}).signature_statuses(["x"], search_history=True)
    with pytest.raises(ValueError, match="256"):
        answering().signature_statuses(["x"] * 257, search_history=True)


def test_a_payout_is_seen_from_every_side(world):
    """It reads status, transaction, history, balances and accounts of one settled payout."""
    wallet = new_wallet()
    assert world.rpc.account_info(wallet, commitment="processed") is None
    assert world.rpc.balance(wallet, commitment="processed") == 0
    assert world.rpc.token_account_balance(wallet, commitment="processed") is None
    treasury = world.usdc(world.hot_wallet)
    payout = world.payout(wallet, amount_micro=12_400_000)
    simulation = world.rpc.simulate(payout.raw, commitment="confirmed")
    assert simulation.error is None
    assert simulation.units_consumed > 0
    assert world.usdc(wallet) == 0
    world.send(payout)
    assert world.rpc.transaction(payout.signature, commitment="confirmed") is None
    world.finalize()

    status = world.status(payout.signature)
    assert (status.commitment, status.confirmations, status.error) == ("finalized", None, None)
    record = world.rpc.transaction(payout.signature, commitment="finalized")
    account = world.network.facts()["hot_wallet_token_account"]
    assert record.raw == payout.raw
    assert record.slot == status.slot
    assert record.signers == (world.hot_wallet,)
    assert record.memos[0].startswith("gpunex:payout:")
    assert record.token_delta(account, world.mint) == -12_400_000
    assert record.token_delta(account, world.facts["decoy_mint"]) == 0
    assert {change.owner: change.delta for change in record.token_changes} == {
        world.hot_wallet: -12_400_000,
        wallet: 12_400_000,
    }
    (line,) = world.rpc.signatures_for_address(account, commitment="finalized")
    assert (line.signature, line.slot, line.error) == (payout.signature, record.slot, None)
    assert line.memo == f"[{len(record.memos[0])}] {record.memos[0]}"
    assert world.usdc(world.hot_wallet, "finalized") == treasury - 12_400_000
    assert world.rpc.account_info(account, commitment="finalized").lamports == 2_039_280


def test_the_clock_of_blocks_runs_behind_the_clock_of_slots(world):
    world.control.tick(60)
    for commitment in ("processed", "confirmed", "finalized"):
        assert world.rpc.block_height(commitment=commitment) < world.rpc.slot(commitment=commitment)
    latest = world.rpc.latest_blockhash(commitment="confirmed")
    assert latest.last_valid_block_height == world.rpc.block_height(commitment="confirmed") + 150
    assert latest.context_slot == world.rpc.slot(commitment="confirmed")
    assert world.rpc.genesis_hash() == world.second.genesis_hash() == world.facts["genesis_hash"]


def test_a_failed_transaction_has_an_error_and_moved_nothing_but_its_fee(world):
    wallet = new_wallet()
    treasury = world.usdc(world.hot_wallet)
    world.control.mint(wallet, USDC)
    world.control.tick()
    world.control.freeze(wallet)
    world.control.tick(3)
    payout = world.payout(wallet)
    with pytest.raises(RpcRefused) as refusal:
        world.send(payout)
    assert refusal.value.code == -32002
    assert refusal.value.transaction_error is None  # a structured error, not one of the bare names
    world.send(payout, skip_preflight=True)
    world.finalize()
    record = world.rpc.transaction(payout.signature, commitment="finalized")
    assert record.error == '{"InstructionError":[4,{"Custom":17}]}'  # the token program: account is frozen
    assert record.error == world.error_of(payout.signature)
    assert record.fee_lamports == 5_000
    assert record.token_delta(world.facts["hot_wallet_token_account"], world.mint) == 0
    assert world.usdc(world.hot_wallet) == treasury
