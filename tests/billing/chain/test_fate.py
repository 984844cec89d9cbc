"""What became of a payout, told against nodes that lose, delay, lag, forget and contradict."""

from __future__ import annotations

import uuid

import pytest

from billing.chain.errors import HistoryIncomplete, RpcUnavailable
from billing.chain.fate import Fate, SignedPayout, payout_fate
from billing.chain.transactions import token_account_address
from tests.billing.chain.world import USDC, new_wallet


def sign(world, wallet=None, payout_id=None, amount_micro=USDC, since=None):
    """A signed payout, and what its attempt row would hold."""
    wallet, payout_id = wallet or new_wallet(), payout_id or uuid.uuid4()
    latest = world.rpc.latest_blockhash(commitment="confirmed")
    transaction = world.payout(wallet, amount_micro=amount_micro, payout_id=payout_id)
    attempt = SignedPayout(
        payout_id=payout_id,
        signature=transaction.signature,
        last_valid_block_height=latest.last_valid_block_height,
        context_slot=latest.context_slot,
        payout_since_slot=latest.context_slot if since is None else since,
        treasury=world.hot_wallet,
        destination_account=token_account_address(wallet, world.mint),
        mint=world.mint,
        amount_micro=amount_micro,
    )
    return transaction, attempt


def fate(world, attempt):
    return payout_fate(world.rpc, world.second, attempt).fate


def expire(world):
    """Past the last valid block, finally."""
    world.control.tick(152 + world.finalized_after)


def test_it_is_pending_until_final_and_then_landed(world):
    transaction, attempt = sign(world)
    assert fate(world, attempt) is Fate.PENDING
    world.send(transaction)
    seen = []
    for _ in range(world.finalized_after + 1):
        world.control.tick()
        seen.append(fate(world, attempt))
    assert seen == [Fate.PENDING] * world.finalized_after + [Fate.LANDED]
    verdict = payout_fate(world.rpc, world.second, attempt)
    assert verdict.record.raw == transaction.raw


def test_a_failed_payout_is_failed_when_final(world):
    wallet = str(world.customer().pubkey())
    world.control.freeze(wallet)
    world.finalize()
    transaction, attempt = sign(world, wallet)
    world.send(transaction, skip_preflight=True)
    world.control.tick(3)
    assert fate(world, attempt) is Fate.PENDING
    world.finalize()
    assert fate(world, attempt) is Fate.FAILED


@pytest.mark.parametrize("kind", ["lose_transaction", "drop_request", "http_503"])
def test_what_never_arrived_expires_and_not_a_block_too_early(world, kind):
    transaction, attempt = sign(world)
    world.control.fault("sendTransaction", kind)
    try:
        world.send(transaction)
    except RpcUnavailable:
        assert kind != "lose_transaction"
    while world.rpc.block_height(commitment="finalized") < attempt.last_valid_block_height:
        world.control.tick()
        assert fate(world, attempt) is Fate.PENDING
    world.control.tick()
    assert fate(world, attempt) is Fate.EXPIRED
    world.send(transaction, skip_preflight=True)
    world.finalize()
    assert fate(world, attempt) is Fate.EXPIRED, "and it stays so"


def test_what_lands_in_the_very_last_block_is_not_called_expired(world):
    """It lands one block beyond the last valid height that the node announced, and is seen when that block is final."""
    transaction, attempt = sign(world)
    world.control.hold()
    world.send(transaction)
    world.control.tick(148)
    world.control.release()
    assert world.control.tick() == attempt.last_valid_block_height + 1
    fates = set()
    for _ in range(world.finalized_after):
        fates.add(fate(world, attempt))
        world.control.tick()
    assert fates == {Fate.PENDING}
    assert fate(world, attempt) is Fate.LANDED


def test_an_answer_that_got_lost_changes_nothing(world):
    transaction, attempt = sign(world)
    world.control.fault("sendTransaction", "drop_response")
    with pytest.raises(RpcUnavailable):
        world.send(transaction)
    world.finalize()
    assert fate(world, attempt) is Fate.LANDED


def test_what_was_rolled_back_is_pending_again_and_expires(world):
    transaction, attempt = sign(world)
    world.send(transaction)
    world.control.tick(3)
    world.control.rollback(3)
    assert fate(world, attempt) is Fate.PENDING
    expire(world)
    assert fate(world, attempt) is Fate.EXPIRED


def test_a_second_node_that_lags_keeps_it_pending(world):
    _, attempt = sign(world)
    expire(world)
    world.control.lag(20)
    assert fate(world, attempt) is Fate.PENDING
    world.control.heal()
    assert fate(world, attempt) is Fate.EXPIRED


def test_a_first_node_that_lags_keeps_it_pending(world):
    transaction, attempt = sign(world)
    world.control.lag(160, endpoint="primary")
    world.send(transaction, skip_preflight=True)
    expire(world)
    assert fate(world, attempt) is Fate.PENDING
    world.control.lag(0, endpoint="primary")
    assert fate(world, attempt) is Fate.LANDED


def test_a_first_node_on_a_dead_fork_does_not_make_it_expire(world):
    """Roles swapped: the node that is asked first lives on a fork without the payout, the second one has it."""
    transaction, attempt = sign(world)
    world.send(transaction)
    world.control.tick(3)
    world.control.fork(3)
    expire(world)
    verdict = payout_fate(world.second, world.rpc, attempt)
    assert verdict.fate is Fate.PENDING
    assert "has it now" in verdict.reason


@pytest.mark.parametrize("endpoint", ["primary", "second"])
def test_a_node_without_the_history_proves_nothing(world, endpoint):
    _, attempt = sign(world)
    expire(world)
    world.control.prune(attempt.context_slot + 1, endpoint=endpoint)
    verdict = payout_fate(world.rpc, world.second, attempt)
    assert verdict.fate is Fate.UNKNOWN
    assert "history from slot" in verdict.reason


def test_a_memo_of_the_payout_forbids_to_sign_again(world):
    """An attempt that our records lost, after a restore for example, has landed."""
    payout_id, wallet = uuid.uuid4(), new_wallet()
    lost, lost_attempt = sign(world, wallet, payout_id)
    world.send(lost)
    world.finalize()
    _, attempt = sign(world, wallet, payout_id, since=lost_attempt.context_slot)
    expire(world)
    verdict = payout_fate(world.rpc, world.second, attempt)
    assert verdict.fate is Fate.UNKNOWN
    assert lost.signature in verdict.reason


def test_a_failed_attempt_of_the_same_payout_does_not_stand_in_the_way(world):
    wallet, payout_id = str(world.customer().pubkey()), uuid.uuid4()
    world.control.freeze(wallet)
    world.finalize()
    failed, failed_attempt = sign(world, wallet, payout_id)
    world.send(failed, skip_preflight=True)
    world.finalize()
    _, attempt = sign(world, wallet, payout_id, since=failed_attempt.context_slot)
    expire(world)
    assert fate(world, attempt) is Fate.EXPIRED


def test_another_amount_than_signed_is_for_a_person_to_look_at(world):
    transaction, attempt = sign(world)
    world.send(transaction)
    world.finalize()
    wrong = SignedPayout(**{name: getattr(attempt, name) for name in attempt.__slots__} | {"amount_micro": 2 * USDC})
    assert fate(world, wrong) is Fate.UNKNOWN


METHODS_ASKED = [
    "getSignatureStatuses",
    "getSlot",
    "getBlockHeight",
    "getTransaction",
    "getFirstAvailableBlock",
    "minimumLedgerSlot",
    "getSignaturesForAddress",
]


@pytest.mark.parametrize("endpoint", ["primary", "second"])
@pytest.mark.parametrize("method", METHODS_ASKED)
def test_an_outage_at_any_step_of_the_proof_decides_nothing(world, method, endpoint):
    _, attempt = sign(world)
    expire(world)
    world.control.fault(method, "http_503", endpoint=endpoint)
    with pytest.raises(RpcUnavailable):
        payout_fate(world.rpc, world.second, attempt)
    assert fate(world, attempt) is Fate.EXPIRED


def test_a_history_that_breaks_off_decides_nothing(world):
    """The second node forgets the treasury's transactions while it is being asked for them."""
    transaction, _ = sign(world)
    world.send(transaction)
    world.finalize()
    _, attempt = sign(world)
    expire(world)

    class Forgetful:
        name = "forgetful"

        def __getattr__(self, name):
            return getattr(world.second, name)

        def signatures_for_address(self, *arguments, **options):
            page = world.second.signatures_for_address(*arguments, **options)
            world.control.prune(10_000)
            return page

    wide = SignedPayout(**{name: getattr(attempt, name) for name in attempt.__slots__} | {"payout_since_slot": 0})
    with pytest.raises(HistoryIncomplete):
        payout_fate(world.rpc, Forgetful(), wide)
