"""The HTTP door: JSON-RPC shapes and error codes as an agave node gives them, and who may come in."""

from __future__ import annotations

import asyncio
import base64
import socket

import httpx
import pytest
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Finalized
from solana.rpc.models import TokenAccountOpts
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from billing.chain.localnet import encoding
from billing.chain.localnet.client import ControlFailed, LocalnetControl
from billing.chain.localnet.methods import METHODS
from tests.billing.chain.world import USDC, new_wallet


def ask(world, method, *params):
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": list(params)}
    reply = httpx.post(world.running.rpc, json=body)
    assert reply.status_code == 200
    assert reply.json()["id"] == 7
    return reply.json()


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("noSuchMethod", [], -32601),
        ("getSlot", [{"commitment": "max"}], -32602),
        ("getSlot", [{"commitment": "finalized", "minContextSlot": 10**9}], -32016),
        ("getBalance", [], -32602),
        ("getBalance", ["not an address"], -32602),
        ("getAccountInfo", [new_wallet()], -32602),  # base58, the default, is not served
        ("getTokenAccountBalance", [new_wallet()], -32602),
        ("getTransaction", ["x"], -32602),
        ("getTransaction", [str(Signature.default()), {"commitment": "processed"}], -32602),
        ("getTransaction", [str(Signature.default()), {"encoding": "jsonParsed"}], -32602),
        ("getSignaturesForAddress", [new_wallet(), {"limit": 1_001}], -32602),
        ("getSignaturesForAddress", [new_wallet(), {"commitment": "processed"}], -32602),
        ("getSignatureStatuses", [["x"]], -32602),
        ("getSignatureStatuses", [[str(Signature.default())] * 257], -32602),
        ("getSignatureStatuses", ["x"], -32602),
        ("sendTransaction", ["!!", {"encoding": "base64"}], -32602),
        ("sendTransaction", ["AA==", {"encoding": "base64"}], -32602),
        ("sendTransaction", ["0OIl"], -32602),
        ("requestAirdrop", [new_wallet(), 0], -32602),
        ("getBlockTime", [3], -32004),
        ("getTokenAccountsByOwner", [new_wallet(), {}], -32602),
    ],
)
def test_bad_calls_get_the_codes_of_a_real_node(quiet_world, method, params, code):
    reply = ask(quiet_world, method, *params)
    assert "result" not in reply
    assert reply["error"]["code"] == code
    assert reply["error"]["message"]


def test_a_bad_signature_is_refused(quiet_world):
    raw = bytearray(quiet_world.payout(new_wallet()).raw)
    raw[5] ^= 1
    for method in ("sendTransaction", "simulateTransaction"):
        options = {"encoding": "base64", "sigVerify": True}
        reply = ask(quiet_world, method, base64.b64encode(raw).decode(), options)
        assert reply["error"]["code"] == -32003


def test_a_versioned_transaction_needs_a_client_that_knows_versions(world):
    faucet = world.key("faucet")
    blockhash = Hash.from_string(world.rpc.latest_blockhash(commitment="confirmed").blockhash)
    step = transfer(TransferParams(from_pubkey=faucet.pubkey(), to_pubkey=Keypair().pubkey(), lamports=10**7))
    message = MessageV0.try_compile(faucet.pubkey(), [step], [], blockhash)
    transaction = VersionedTransaction(message, [faucet])
    encoded = encoding.base58_encode(bytes(transaction))
    signature = ask(world, "sendTransaction", encoded, {"preflightCommitment": "confirmed"})["result"]
    world.finalize()
    refusal = ask(world, "getTransaction", signature)
    assert refusal["error"]["code"] == -32015
    answer = ask(world, "getTransaction", signature, {"maxSupportedTransactionVersion": 0})["result"]
    assert answer["version"] == 0
    assert world.rpc.transaction(signature, commitment="finalized").raw == bytes(transaction)


def test_solana_pys_own_client_reads_this_network(world):
    """The shapes are those that another client's strict parser takes."""
    wallet = new_wallet()
    payout = world.payout(wallet)
    world.send(payout)
    world.finalize()
    owner, signature = Pubkey.from_string(wallet), Signature.from_string(payout.signature)

    async def look():
        async with AsyncClient(world.running.rpc, commitment=Finalized) as client:
            accounts = await client.get_token_accounts_by_owner(
                owner, TokenAccountOpts(mint=Pubkey.from_string(world.mint))
            )
            (account,) = accounts.value
            balance = await client.get_token_account_balance(account.pubkey)
            found = await client.get_transaction(signature, max_supported_transaction_version=0)
            history = await client.get_signatures_for_address(account.pubkey, limit=10)
            statuses = await client.get_signature_statuses([signature], search_transaction_history=True)
            version, epoch = await client.get_version(), await client.get_epoch_info()
            fee = await client.get_fee_for_message(VersionedTransaction.from_bytes(payout.raw).message)
            rent = await client.get_minimum_balance_for_rent_exemption(165)
            many = await client.get_multiple_accounts([owner, account.pubkey])
            assert await client.is_connected()
        assert balance.value.amount == str(USDC)
        assert found.value.transaction.meta.err is None
        assert [entry.signature for entry in history.value] == [signature]
        assert statuses.value[0].err is None
        assert version.value.solana_core == "3.0.0"
        assert epoch.value.block_height < epoch.value.absolute_slot
        assert (fee.value, rent.value) == (5_000, 2_039_280)
        assert many.value[0] is None
        assert many.value[1].lamports == 2_039_280

    asyncio.run(look())


def test_before_and_until_behave_as_on_a_real_node(world):
    signatures = []
    for _ in range(6):
        signatures.insert(0, world.control.airdrop(world.facts["vault_owner"], 1))
        world.control.tick()
    world.finalize()
    elsewhere = world.control.airdrop(new_wallet(), 10**7)
    world.finalize()

    def history(**options):
        entries = ask(world, "getSignaturesForAddress", world.facts["vault_owner"], options)["result"]
        return [entry["signature"] for entry in entries]

    assert history() == signatures
    assert history(limit=2) == signatures[:2]
    assert history(before=signatures[1]) == signatures[2:]
    assert history(until=signatures[4]) == signatures[:4]
    assert history(before=signatures[1], until=signatures[4]) == signatures[2:4]
    assert history(before=elsewhere) == signatures, "paging may start at another address's transaction"
    unknown = str(Keypair().sign_message(b"x"))
    assert history(before=unknown) == []
    assert history(until=unknown) == signatures


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({"Content-Type": "text/plain"}, "/", 403),
        ({"Content-Type": "application/json", "Origin": "https://evil.example"}, "/", 403),
        ({"Content-Type": "application/json", "Origin": "https://evil.example"}, "/control", 403),
        ({"Content-Type": "application/json", "Host": "evil.example:80"}, "/control", 403),
        ({"Content-Type": "application/json"}, "/elsewhere", 404),
        ({"Content-Type": "application/json"}, "/", 200),
    ],
)
def test_a_web_page_in_somebodys_browser_does_not_get_in(quiet_world, headers, path, status):
    body = b'{"jsonrpc":"2.0","id":1,"method":"getSlot","action":"tick"}'
    height = quiet_world.network.cluster.height
    assert httpx.post(quiet_world.running.rpc + path, content=body, headers=headers).status_code == status
    assert quiet_world.network.cluster.height == height


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (b"{}", -32600),
        (b'{"method":1}', -32600),
        (b'{"method":"getSlot","params":{}}', None),
    ],
)
def test_what_is_no_call_is_answered_with_an_error(quiet_world, body, code):
    reply = httpx.post(quiet_world.running.rpc, content=body, headers={"Content-Type": "application/json"})
    assert reply.json().get("error", {}).get("code") == code


def test_a_body_that_is_too_long_is_refused(quiet_world):
    headers = {"Content-Type": "application/json"}
    assert httpx.post(quiet_world.running.rpc, content=b" " * (2**20 + 1), headers=headers).status_code == 413


@pytest.mark.parametrize("path", ["/", "/control"])
def test_a_request_cut_short_is_not_answered(quiet_world, path):
    call = b'{"action":"tick","jsonrpc":"2.0","id":1,"method":"getHealth"}'
    head = b"POST %b HTTP/1.1\r\nHost: localhost:1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    height, calls = quiet_world.network.cluster.height, quiet_world.control.calls()
    with socket.create_connection(
        ("127.0.0.1", int(quiet_world.running.rpc.rpartition(":")[2])), timeout=60
    ) as connection:
        connection.sendall(head % (path.encode(), len(call) + 1) + call)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(65_536) == b""
    assert (quiet_world.network.cluster.height, quiet_world.control.calls()) == (height, calls)


def test_a_connection_is_kept_for_the_next_call(quiet_world):
    call = b'{"jsonrpc":"2.0","id":1,"method":"getHealth"}'
    head = b"POST / HTTP/1.1\r\nHost: localhost:1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(
        ("127.0.0.1", int(quiet_world.running.rpc.rpartition(":")[2])), timeout=5
    ) as connection:
        for _ in range(3):
            connection.sendall(head % len(call) + call)
            reply = connection.recv(65_536)
            assert reply.endswith(b'{"jsonrpc":"2.0","id":1,"result":"ok"}'), "head and body come together"


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ({"action": "explode"}, "action"),
        ({"action": "tick", "blocks": 0}, "blocks"),
        ({"action": "tick", "blocks": True}, "blocks"),
        ({"action": "airdrop", "address": "x", "lamports": 1}, "address"),
        ({"action": "mint", "address": new_wallet(), "amount_micro": -1}, "amount_micro"),
        ({"action": "mint", "address": new_wallet(), "amount_micro": 1, "mint": "x"}, "mint"),
        ({"action": "fault", "method": "getNothing", "kind": "slow"}, "method"),
        ({"action": "fault", "method": "*", "kind": "boom"}, "kind"),
        ({"action": "fault", "method": "*", "kind": "slow", "seconds": 10**6}, "seconds"),
        ({"action": "lag", "blocks": 1, "endpoint": "third"}, "endpoint"),
        ({"action": "prune", "before_slot": 0}, "before_slot"),
        ("tick", "action"),
        ([], "action"),
    ],
)
def test_a_control_request_that_makes_no_sense_names_the_field(quiet_world, request_, name):
    height = quiet_world.network.cluster.height
    reply = httpx.post(quiet_world.running.rpc + "/control", json=request_)
    assert reply.status_code == 400
    assert reply.json()["error"].startswith(f"{name}: ")
    assert quiet_world.network.cluster.height == height


def test_the_control_client_says_when_there_is_no_network():
    with LocalnetControl("http://127.0.0.1:1") as control, pytest.raises(ControlFailed, match="no local network"):
        control.tick()


def test_an_airdrop_lands_and_two_equal_ones_are_two(world):
    wallet = new_wallet()
    for _ in range(2):
        ask(world, "requestAirdrop", wallet, 10**7)
    world.control.tick()
    assert world.rpc.balance(wallet, commitment="processed") == 2 * 10**7


def test_every_method_answers_a_plain_call_or_says_what_is_missing(quiet_world):
    """None of them falls over: the connection stays and the answer has a result or an error code."""
    for name in METHODS:
        reply = ask(quiet_world, name)
        assert ("result" in reply) != ("error" in reply), name


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\x01", bytes(range(64)), b"\xff" * 70])
def test_base58_goes_there_and_back(data):
    text = encoding.base58_encode(data)
    assert encoding.base58_decode(text) == data
    if len(data) == 64:
        assert text == str(Signature.from_bytes(data))
    with pytest.raises(ValueError, match="substring"):
        encoding.base58_decode("0OIl")
