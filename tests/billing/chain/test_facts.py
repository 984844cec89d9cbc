"""The facts about Solana that the payout design rests on (money.md), each shown on the real programs."""

from __future__ import annotations

import asyncio
import random
import statistics
import time

import httpx
import pytest
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed
from solana.rpc.core import TransactionExpiredBlockheightExceededError
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature
from spl.token.instructions import set_authority
from spl.token.models import AuthorityType, SetAuthorityParams

from billing.chain import instructions
from billing.chain.addresses import DestinationProblem, DestinationRefused, address_check, destination_check
from billing.chain.errors import RpcRefused, RpcUnavailable
from billing.chain.transactions import assemble_transaction, token_account_address
from tests.billing.chain.world import USDC, new_wallet

USDC_MAINNET_MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


def test_two_equal_payouts_on_one_blockhash_are_kept_apart_by_the_memo(world):
    wallet = new_wallet()
    first, second = world.payout(wallet), world.payout(wallet)
    assert first.signature != second.signature
    for payout in (first, second):
        world.send(payout)
    world.finalize()
    assert world.usdc(wallet) == 2 * USDC


def test_without_the_memo_two_equal_payouts_are_one_transaction(world):
    """The control of the test above."""
    key, wallet = world.key("hot_wallet"), new_wallet()
    mint, owner = Pubkey.from_string(world.mint), Pubkey.from_string(wallet)
    source = Pubkey.from_string(world.facts["hot_wallet_token_account"])
    blockhash = Hash.from_string(world.rpc.latest_blockhash(commitment="confirmed").blockhash)
    steps = [
        instructions.create_token_account_idempotent(key.pubkey(), owner, mint),
        instructions.transfer_checked(source, mint, instructions.token_account_of(owner, mint), key.pubkey(), USDC),
    ]
    message = bytes(Message.new_with_blockhash(steps, key.pubkey(), blockhash))
    first, second = (assemble_transaction(message, [bytes(key.sign_message(message))]) for _ in range(2))
    assert first == second
    for payout in (first, second):
        world.send(payout)
    world.finalize()
    assert world.usdc(wallet) == USDC


def test_a_token_account_given_away_is_caught_by_create_idempotent_and_by_the_address_check(world):
    victim, thief = world.customer(usdc_micro=1), new_wallet()
    account = Pubkey.from_string(token_account_address(str(victim.pubkey()), world.mint))
    give_away = set_authority(
        SetAuthorityParams(
            program_id=instructions.TOKEN_PROGRAM,
            account=account,
            authority=AuthorityType.ACCOUNT_OWNER,
            current_authority=victim.pubkey(),
            new_authority=Pubkey.from_string(thief),
        )
    )
    world.submit([give_away], victim)
    world.finalize()
    payout = world.payout(str(victim.pubkey()))
    simulation = world.rpc.simulate(payout.raw, commitment="confirmed")
    assert simulation.error is not None
    assert '"InstructionError":[3,' in simulation.error  # the fourth instruction: createIdempotent
    world.send(payout, skip_preflight=True)
    world.finalize()
    assert world.error_of(payout.signature) == simulation.error
    assert world.rpc.token_account_balance(str(account), commitment="finalized").amount == 1
    with pytest.raises(DestinationRefused) as refusal:
        destination_check(world.rpc, str(victim.pubkey()), mint=world.mint, ours=())
    assert refusal.value.problem is DestinationProblem.TOKEN_ACCOUNT_TAKEN


def test_identical_bytes_land_once_even_after_many_others(world):
    """LiteSVM by default forgets a transaction after 32 others and executes it again."""
    wallet = new_wallet()
    payout = world.payout(wallet)
    world.send(payout)
    world.control.tick()
    for _ in range(40):
        world.send(world.payout(new_wallet()), skip_preflight=True)
    world.control.tick()
    world.send(payout, skip_preflight=True)
    world.finalize()
    assert world.usdc(wallet) == USDC


def test_the_same_payout_signed_again_on_a_new_blockhash_pays_twice(world):
    """The danger that the attempts table guards against: the chain does not know what a payout is."""
    wallet, payout_id = new_wallet(), "0190f2aa-0000-7000-8000-00000000000a"
    first = world.payout(wallet, payout_id=payout_id)
    world.control.tick()
    second = world.payout(wallet, payout_id=payout_id)
    world.send(first)
    world.send(second)
    world.finalize()
    assert world.usdc(wallet) == 2 * USDC


def test_sending_what_landed_is_answered_with_already_processed(world):
    payout = world.payout(new_wallet())
    world.send(payout)
    world.control.tick(3)
    with pytest.raises(RpcRefused) as refusal:
        world.send(payout)
    assert refusal.value.already_processed
    assert not refusal.value.blockhash_not_found


def test_blockhash_not_found_proves_nothing(world):
    """A node that lags refuses a fresh blockhash while the transaction lands through another."""
    wallet = new_wallet()
    world.control.tick(20)
    payout = world.payout(wallet)
    world.control.lag(10)
    with pytest.raises(RpcRefused) as refusal:
        world.second.send(payout.raw, skip_preflight=False, preflight_commitment="confirmed")
    assert refusal.value.blockhash_not_found
    world.send(payout)
    world.finalize()
    assert world.usdc(wallet) == USDC


@pytest.mark.parametrize("kind", ["drop_response", "http_503_after", "garbage"])
def test_a_failed_send_proves_nothing(world, kind):
    wallet = new_wallet()
    payout = world.payout(wallet)
    world.control.fault("sendTransaction", kind)
    with pytest.raises(RpcUnavailable):
        world.send(payout)
    world.finalize()
    assert world.usdc(wallet) == USDC


def test_solana_pys_confirmation_misleads_where_statuses_do_not(world):
    """It returns normally for a transaction that failed, and raises "expired" for one that landed long ago."""
    latest = world.rpc.latest_blockhash(commitment="confirmed")
    failed = world.payout(new_wallet(), amount_micro=200_000 * USDC // 50)  # within the signer's limit
    drain = [world.payout(new_wallet(), amount_micro=4_900 * USDC) for _ in range(20)]
    for payout in [*drain, failed]:
        world.send(payout, skip_preflight=True)
    landed = world.payout(new_wallet(), amount_micro=1)
    world.send(landed, skip_preflight=True)
    world.control.tick(200)

    async def confirm(signature: str, height: int):
        async with AsyncClient(world.running.rpc) as client:
            return await client.confirm_transaction(
                Signature.from_string(signature), Confirmed, last_valid_block_height=height
            )

    misled = asyncio.run(confirm(failed.signature, latest.last_valid_block_height + 1_000))
    assert misled.value[0].err is not None
    with pytest.raises(TransactionExpiredBlockheightExceededError):
        asyncio.run(confirm(landed.signature, latest.last_valid_block_height))
    assert world.error_of(failed.signature) is not None
    assert world.error_of(landed.signature) is None


def test_a_new_recipient_costs_rent_once(world):
    wallet = new_wallet()
    account = token_account_address(wallet, world.mint)
    for expected in (instructions.TOKEN_ACCOUNT_RENT_LAMPORTS, 0):
        before = world.rpc.balance(world.hot_wallet, commitment="processed")
        payout = world.payout(wallet)
        world.send(payout, skip_preflight=True)
        world.control.tick(3)
        record = world.rpc.transaction(payout.signature, commitment="confirmed")
        spent = before - world.rpc.balance(world.hot_wallet, commitment="processed")
        assert spent == record.fee_lamports + expected
        assert record.created_token_account(account) is (expected > 0)


def test_a_payout_stays_far_below_its_compute_limit(world):
    used = [
        world.rpc.simulate(world.payout(new_wallet()).raw, commitment="confirmed").units_consumed for _ in range(20)
    ]
    assert max(used) < 40_000


def test_on_curve_alone_lets_the_usdc_mint_pass():
    assert Pubkey.from_string(USDC_MAINNET_MINT).is_on_curve()
    address_check(USDC_MAINNET_MINT)


def test_half_of_all_single_typos_give_another_valid_address():
    """So the form of an address is no protection, and its owner has to prove that it is theirs."""
    chooser = random.Random(7)
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    valid = tried = 0
    for seed in range(40):
        address = str(Keypair.from_seed(bytes([seed]) * 32).pubkey())
        for position in range(1, len(address)):
            typo = (
                address[:position] + chooser.choice(alphabet.replace(address[position], "")) + address[position + 1 :]
            )
            tried += 1
            try:
                address_check(typo)
            except DestinationRefused:
                continue
            valid += 1
    assert 0.4 < valid / tried < 0.6


def test_a_reply_leaves_in_one_write(world):
    """Two writes per reply wait for each other's acknowledgement: 40 ms a call at least."""
    times = []
    for _ in range(25):
        started = time.perf_counter()
        world.rpc.block_height(commitment="processed")
        times.append(time.perf_counter() - started)
    assert statistics.median(times) < 0.03


def test_a_transaction_larger_than_a_packet_is_refused_by_the_node(world):
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "sendTransaction",
        "params": ["A" * 1_648, {"encoding": "base64"}],
    }
    error = httpx.post(world.running.rpc, json=body).json()["error"]
    assert error["code"] == -32602
    assert "too large: 1236 bytes" in error["message"]
