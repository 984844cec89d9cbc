"""The deposit reader: what it credits, how it pages, and what it does not believe."""

from __future__ import annotations

import dataclasses
import random

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from billing.chain import instructions
from billing.chain.deposits import DepositCursor, credit_confirmed_by, credits_read
from billing.chain.errors import HistoryIncomplete, RpcUnavailable
from billing.chain.transactions import build_deposit_message, sign_with_secret
from tests.billing.chain.world import USDC, new_wallet


def read(world, cursor=None, rpc=None, **options):
    return credits_read(
        rpc or world.rpc,
        token_account=world.facts["vault_token_account"],
        mint=world.mint,
        cursor=cursor,
        **options,
    )


def test_a_deposit_is_credited_by_what_our_account_gained(world):
    customer, reference = world.customer(), new_wallet()
    signature = world.deposit(customer, 25 * USDC, references=[reference], memo="order 7")
    world.finalize()
    page = read(world)
    (credit,) = page.credits
    assert (credit.signature, credit.index, credit.amount_micro, credit.failed) == (signature, 0, 25 * USDC, False)
    assert reference in credit.references
    assert credit.senders == (str(customer.pubkey()),)
    assert credit.memo == "order 7"
    assert page.cursor == DepositCursor(credit.slot, signature)
    assert not page.more
    assert credit_confirmed_by(world.second, credit)


def test_only_what_is_final_is_seen(world):
    customer = world.customer()
    world.deposit(customer, USDC)
    world.control.tick(world.finalized_after)
    assert read(world).credits == ()
    world.control.tick()
    assert len(read(world).credits) == 1


def test_a_deposit_that_is_rolled_back_is_never_seen(world):
    customer = world.customer()
    world.control.tick(5)
    world.deposit(customer, USDC)
    world.control.tick(4)
    world.control.rollback(4)
    world.finalize()
    assert read(world).credits == ()


def test_a_failed_transfer_credits_nothing_and_is_marked(world):
    customer, reference = world.customer(usdc_micro=USDC), new_wallet()
    world.deposit(customer, 2 * USDC, references=[reference])
    world.finalize()
    (credit,) = read(world).credits
    assert (credit.amount_micro, credit.failed) == (0, True)
    assert reference in credit.references


def test_another_token_of_the_same_look_is_not_money(world):
    """A transaction that touches our account and moves a decoy token with as many decimals."""
    customer, decoy = world.customer(), world.facts["decoy_mint"]
    owner, vault_owner = customer.pubkey(), Pubkey.from_string(world.facts["vault_owner"])
    world.control.mint(str(owner), 50 * USDC, mint=decoy)
    world.control.tick()
    mint = Pubkey.from_string(decoy)
    world.submit(
        [
            instructions.create_token_account_idempotent(owner, vault_owner, mint),
            instructions.transfer_checked(
                instructions.token_account_of(owner, mint),
                mint,
                instructions.token_account_of(vault_owner, mint),
                owner,
                50 * USDC,
                (Pubkey.from_string(world.facts["vault_token_account"]),),
            ),
        ],
        customer,
    )
    world.finalize()
    page = read(world)
    assert page.credits == ()
    assert page.cursor is not None, "it was read, and is nothing"


def test_what_leaves_the_vault_is_no_credit(world):
    customer = world.customer()
    world.deposit(customer, 10 * USDC)
    world.finalize()
    vault_owner = world.key("vault_owner")
    message = build_deposit_message(
        owner=str(vault_owner.pubkey()),
        mint=world.mint,
        recipient=str(customer.pubkey()),
        amount_micro=4 * USDC,
        blockhash=world.rpc.latest_blockhash(commitment="confirmed").blockhash,
    )
    world.send(sign_with_secret(message, bytes(vault_owner)))
    world.finalize()
    assert [credit.amount_micro for credit in read(world).credits] == [10 * USDC]


def test_two_references_in_one_transaction_are_both_reported(world):
    references = (new_wallet(), new_wallet())
    world.deposit(world.customer(), USDC, references=references)
    world.finalize()
    (credit,) = read(world).credits
    assert set(references) <= set(credit.references)
    assert world.mint not in credit.senders


def spread(world, count, seed=3):
    """Deposits over several blocks, some blocks with many; gives the amounts in the order of the chain."""
    chooser = random.Random(seed)
    customer = world.customer(usdc_micro=100_000 * USDC)
    amounts = list(range(1, count + 1))
    for amount in amounts:
        world.deposit(customer, amount)
        if chooser.random() < 0.3:
            world.control.tick()
    world.finalize()
    return amounts


@pytest.mark.parametrize("page_size", [1, 2, 3, 5, 20, 1_000])
def test_pages_of_any_size_lose_nothing_also_inside_a_slot(world, page_size):
    amounts = spread(world, 20)
    credits = read(world, page_size=page_size).credits
    assert [credit.amount_micro for credit in credits] == amounts
    by_slot = {}
    for credit in credits:
        by_slot.setdefault(credit.slot, []).append(credit.index)
    assert any(len(indices) > 3 for indices in by_slot.values()), "the test needs a full slot"
    assert all(indices == list(range(len(indices))) for indices in by_slot.values())


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_reading_on_from_the_cursor_gets_ahead_and_loses_nothing(world, limit):
    amounts = spread(world, 20)
    seen, cursor, reads = {}, None, 0
    while True:
        page = read(world, cursor, limit=limit, page_size=3)
        seen |= {credit.signature: credit for credit in page.credits}
        assert cursor is None or page.cursor.slot >= cursor.slot
        cursor, reads = page.cursor, reads + 1
        if not page.more:
            break
        assert reads < 30, "the reader does not get ahead"
    assert sorted(credit.amount_micro for credit in seen.values()) == amounts


def test_a_second_read_shows_the_same_and_fetches_nothing_that_is_known(world):
    spread(world, 5)
    first = read(world)
    again = read(world, first.cursor)
    assert again == first
    calls = world.control.calls()["getTransaction"]
    known = {credit.signature for credit in first.credits}
    assert read(world, first.cursor, known=known).credits == ()
    assert world.control.calls()["getTransaction"] == calls + 1  # the proof that the history ends there


def test_a_transaction_indexed_late_is_found_by_the_overlap(world):
    """The node lists a block's second deposit first, and its first one only later."""
    customer = world.customer()
    late = world.deposit(customer, 1)
    early = world.deposit(customer, 2)
    world.finalize()
    vault, cluster = world.facts["vault_token_account"], world.network.cluster
    cluster.by_address[vault].remove(late)
    first = read(world)
    assert [credit.signature for credit in first.credits] == [early]
    cluster.by_address[vault].insert(0, late)
    second = read(world, first.cursor, known={early})
    assert [(credit.signature, credit.amount_micro) for credit in second.credits] == [(late, 1)]
    assert second.cursor == first.cursor


def test_a_node_that_lags_does_not_move_the_cursor_back(world):
    spread(world, 4)
    cursor = read(world).cursor
    world.control.lag(world.finalized_after + 5)
    with pytest.raises(HistoryIncomplete):
        read(world, cursor, rpc=world.second)
    world.control.heal()
    assert read(world, cursor, rpc=world.second).cursor == cursor


def test_a_node_on_a_fork_confirms_nothing_and_moves_nothing(world):
    world.deposit(world.customer(), USDC)
    world.control.fork(0)
    world.finalize()
    page = read(world)
    assert len(page.credits) == 1
    assert not credit_confirmed_by(world.second, page.credits[0])
    with pytest.raises(HistoryIncomplete):
        read(world, page.cursor, rpc=world.second)


def test_a_pruned_node_is_not_believed_to_have_shown_all(world):
    spread(world, 4)
    page = read(world)
    world.control.prune(page.cursor.slot + 1)
    assert world.second.first_available_block() > page.cursor.slot
    assert world.second.minimum_ledger_slot() > page.cursor.slot
    with pytest.raises(HistoryIncomplete):
        read(world, page.cursor, rpc=world.second)


def test_a_node_that_forgets_between_two_pages_is_not_believed_to_be_at_the_end(world):
    spread(world, 6)

    class Forgetful:
        """Prunes its history after the first page: the second one is then empty, as if there were no more."""

        name = "forgetful"
        transaction = world.second.transaction

        def signatures_for_address(self, *arguments, **options):
            page = world.second.signatures_for_address(*arguments, **options)
            world.control.prune(10_000)
            return page

    with pytest.raises(HistoryIncomplete, match="no longer knows"):
        read(world, rpc=Forgetful(), page_size=2)


def test_a_transaction_that_is_listed_and_missing_stops_the_reader(world):
    spread(world, 3)

    class Hollow:
        name = "hollow"
        signatures_for_address = world.rpc.signatures_for_address

        def transaction(self, signature, **options):
            return None

    with pytest.raises(HistoryIncomplete):
        read(world, rpc=Hollow())


@pytest.mark.parametrize("method", ["getSignaturesForAddress", "getTransaction"])
def test_an_outage_in_the_middle_leaves_the_cursor_where_it_was(world, method):
    amounts = spread(world, 3)
    world.control.fault(method, "http_503")
    with pytest.raises(RpcUnavailable):
        read(world)
    assert [credit.amount_micro for credit in read(world).credits] == amounts


def test_a_second_node_must_have_the_same_amount(world):
    world.deposit(world.customer(), USDC)
    world.finalize()
    (credit,) = read(world).credits
    assert credit_confirmed_by(world.second, credit)
    assert not credit_confirmed_by(world.second, dataclasses.replace(credit, amount_micro=2 * USDC))


def test_an_account_without_history_has_no_cursor(world):
    page = read(world)
    assert (page.credits, page.cursor, page.more) == ((), None, False)
    with pytest.raises(HistoryIncomplete):
        read(world, DepositCursor(1, str(Keypair().sign_message(b"x"))))
