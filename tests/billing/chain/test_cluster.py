"""The chain itself: commitments, the signing window, rollbacks, forks, a node that lags or forgets."""

from __future__ import annotations

import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.transaction import VersionedTransaction

from billing.chain.errors import RpcRefused
from billing.chain.localnet.client import ControlFailed
from billing.chain.localnet.cluster import Finality, height_before, slot_of
from tests.billing.chain.world import USDC, new_wallet


def test_a_transaction_rises_from_processed_to_finalized(world):
    payout = world.payout(new_wallet())
    world.send(payout)
    assert world.status(payout.signature) is None
    seen = []
    for _ in range(world.finalized_after + 1):
        world.control.tick()
        status = world.status(payout.signature)
        seen.append((status.commitment, status.confirmations))
    assert seen[:3] == [("processed", 0), ("processed", 1), ("confirmed", 2)]
    assert seen[-2:] == [("confirmed", 7), ("finalized", None)]


def test_a_read_gives_the_state_of_its_commitment(world):
    wallet = new_wallet()
    payout = world.payout(wallet)
    world.send(payout)
    balances = []
    for _ in range(world.finalized_after + 1):
        world.control.tick()
        balances.append([world.usdc(wallet, level) for level in ("processed", "confirmed", "finalized")])
    assert balances[0] == [USDC, 0, 0]
    assert balances[2] == [USDC, USDC, 0]
    assert balances[-1] == [USDC, USDC, USDC]


def test_a_simulation_runs_on_the_state_of_its_commitment(world):
    """Money that is not confirmed yet cannot be spent in a dry run at confirmed."""
    wallet = Keypair()
    world.control.airdrop(str(wallet.pubkey()), 10**9)
    blockhash = Hash.from_string(world.rpc.latest_blockhash(commitment="confirmed").blockhash)
    raw = bytes(VersionedTransaction(Message.new_with_blockhash([], wallet.pubkey(), blockhash), [wallet]))
    world.control.tick()
    assert world.rpc.simulate(raw, commitment="processed").error is None
    assert world.rpc.simulate(raw, commitment="confirmed").error == "AccountNotFound"
    with pytest.raises(RpcRefused, match="no record of a prior credit"):
        world.rpc.send(raw, skip_preflight=False, preflight_commitment="confirmed")
    world.control.tick(2)
    world.rpc.send(raw, skip_preflight=False, preflight_commitment="confirmed")


def test_a_fresh_blockhash_is_unknown_to_an_older_bank(world):
    """Signed on confirmed, checked on finalized: the classic false "Blockhash not found"."""
    payout = world.payout(new_wallet())
    with pytest.raises(RpcRefused) as refusal:
        world.rpc.send(payout.raw, skip_preflight=False, preflight_commitment="finalized")
    assert refusal.value.blockhash_not_found
    world.send(payout)


@pytest.mark.parametrize(("blocks", "lands"), [(148, True), (149, False)])
def test_a_held_transaction_lands_until_its_window_closes(world, blocks, lands):
    """The blockhash is two blocks old when signed; it can land in 151 blocks after its own, one beyond the height
    announced as the last valid one."""
    wallet = new_wallet()
    last_valid = world.rpc.latest_blockhash(commitment="confirmed").last_valid_block_height
    payout = world.payout(wallet)
    world.control.hold()
    world.send(payout)
    height = world.control.tick(blocks)
    assert height == last_valid + (0 if lands else 1)
    world.control.release()
    world.control.tick()
    assert world.usdc(wallet) == (USDC if lands else 0)


def test_after_expiry_nothing_brings_a_transaction_back(world):
    wallet = new_wallet()
    latest = world.rpc.latest_blockhash(commitment="confirmed")
    payout = world.payout(wallet)
    world.control.fault("sendTransaction", "lose_transaction")
    world.send(payout)
    world.control.tick(151 + world.finalized_after)
    assert world.rpc.block_height(commitment="finalized") > latest.last_valid_block_height
    world.send(payout, skip_preflight=True)
    with pytest.raises(RpcRefused) as refusal:
        world.send(payout)
    assert refusal.value.blockhash_not_found
    world.control.tick(5)
    assert world.status(payout.signature) is None
    assert world.usdc(wallet) == 0


def test_a_rollback_takes_a_confirmed_transaction_and_its_effects_back(world):
    wallet = new_wallet()
    treasury = world.usdc(world.hot_wallet)
    sol = world.rpc.balance(world.hot_wallet, commitment="processed")
    payout = world.payout(wallet)
    world.send(payout)
    world.control.tick(4)
    assert world.status(payout.signature).commitment == "confirmed"
    world.control.rollback(4)
    assert world.status(payout.signature) is None
    assert world.rpc.signatures_for_address(world.hot_wallet, commitment="confirmed") == ()
    assert (world.usdc(wallet), world.usdc(world.hot_wallet)) == (0, treasury)
    assert world.rpc.balance(world.hot_wallet, commitment="processed") == sol
    world.control.tick(2)
    world.send(payout)
    world.finalize()
    assert (world.usdc(wallet), world.usdc(world.hot_wallet)) == (USDC, treasury - USDC)


def test_a_rollback_can_put_transactions_back_into_the_mempool(world):
    wallet = new_wallet()
    payout = world.payout(wallet)
    world.send(payout)
    world.control.tick(3)
    world.control.rollback(3, keep_pending=True)
    assert world.control.facts()["mempool"] == [payout.signature]
    world.finalize()
    assert world.usdc(wallet) == USDC


def test_what_was_signed_on_a_dead_fork_never_lands(world):
    world.control.tick(5)
    payout = world.payout(new_wallet())
    world.control.rollback(5)
    world.send(payout, skip_preflight=True)
    world.finalize()
    assert world.status(payout.signature) is None


def test_final_blocks_are_not_rolled_back(world):
    height = world.rpc.block_height(commitment="processed")
    for blocks in (world.finalized_after, 0, 1_000):
        with pytest.raises(ControlFailed, match="blocks: found"):
            world.control.rollback(blocks)
    assert world.rpc.block_height(commitment="processed") == height


def test_a_node_that_lags_shows_the_past(world):
    wallet = new_wallet()
    payout = world.payout(wallet)
    world.send(payout)
    world.finalize()
    world.control.lag(world.finalized_after + 1)
    assert world.second.signature_statuses([payout.signature], search_history=True).statuses == (None,)
    assert world.second.transaction(payout.signature, commitment="confirmed") is None
    assert world.second.account_info(wallet, commitment="processed") is None
    assert world.second.slot(commitment="finalized") < world.rpc.slot(commitment="finalized")
    context = world.second.signature_statuses([payout.signature], search_history=True).context_slot
    assert context < world.status(payout.signature).slot, "its answer is older than the transaction"
    world.control.heal()
    assert world.second.transaction(payout.signature, commitment="finalized") is not None


def test_a_node_on_a_fork_goes_its_own_way_until_it_is_healed(world):
    wallet = new_wallet()
    payout = world.payout(wallet)
    world.send(payout)
    world.control.tick(3)
    world.control.fork(3)
    world.finalize()
    assert world.second.transaction(payout.signature, commitment="finalized") is None
    assert world.second.block_height(commitment="processed") == world.rpc.block_height(commitment="processed")
    assert world.second.genesis_hash() == world.rpc.genesis_hash()
    here, there = (client.latest_blockhash(commitment="finalized") for client in (world.rpc, world.second))
    assert here.blockhash != there.blockhash
    world.control.heal()
    assert world.second.transaction(payout.signature, commitment="finalized") is not None


def test_the_fork_keeps_what_happened_before_it(world):
    payout = world.payout(new_wallet())
    world.send(payout)
    world.finalize()
    world.control.fork(1)
    assert world.second.transaction(payout.signature, commitment="finalized") is not None


def test_old_statuses_need_a_search_in_the_history(world):
    payout = world.payout(new_wallet())
    world.send(payout)
    world.control.tick(400)
    assert world.rpc.signature_statuses([payout.signature], search_history=False).statuses == (None,)
    assert world.status(payout.signature).commitment == "finalized"


def test_a_transaction_that_cannot_pay_its_fee_is_in_no_block(world):
    poor = Keypair()
    signature = world.submit([], poor)
    world.finalize()
    assert world.status(signature) is None
    assert world.control.facts()["mempool"] == []


def test_one_slot_in_twenty_one_has_no_block():
    heights = {slot: height_before(slot) for slot in range(500)}
    with_block = {slot_of(height): height for height in range(480)}
    for slot, height in heights.items():
        assert height == max(value for key, value in with_block.items() if key <= slot)
    assert [slot for slot in range(60) if slot not in with_block] == [20, 41]


@pytest.mark.parametrize(("confirmed", "finalized"), [(0, 4), (5, 4), (-1, -1)])
def test_finality_must_make_sense(confirmed, finalized):
    with pytest.raises(ValueError, match="allowed"):
        Finality(confirmed, finalized)
