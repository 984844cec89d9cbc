"""Which addresses can be paid; each refusal has its name."""

from __future__ import annotations

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account

from billing.chain import instructions
from billing.chain.addresses import DestinationProblem, DestinationRefused, address_check, destination_check
from billing.chain.errors import RpcUnavailable
from billing.chain.transactions import token_account_address
from tests.billing.chain.world import USDC, new_wallet

GOOD = str(Keypair.from_seed(b"\x01" * 32).pubkey())


def problem_of(call, *arguments, **options):
    with pytest.raises(DestinationRefused) as refusal:
        call(*arguments, **options)
    assert refusal.value.problem in DestinationProblem
    return refusal.value.problem


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("", "not_base58"),
        (GOOD + " ", "not_base58"),
        (GOOD + "\n", "not_base58"),
        ("0" + GOOD[1:], "not_base58"),
        ("0x" + "ab" * 20, "not_base58"),
        (GOOD[:-1] + "О", "not_base58"),  # a Cyrillic letter
        (GOOD[:-2], "wrong_length"),
        (GOOD + "1", "wrong_length"),
        ("1" * 5_000, "wrong_length"),
        ("z" * 44, "wrong_length"),
        ("1nc1nerator11111111111111111111111111111111", "burn_address"),
        ("11111111111111111111111111111111", "burn_address"),
        (token_account_address(GOOD, GOOD), "off_curve"),
    ],
)
def test_an_address_of_the_wrong_form_is_refused(address, problem):
    assert problem_of(address_check, address) == problem


def test_our_own_addresses_are_refused(world):
    ours = {world.facts[name] for name in ("hot_wallet", "vault_owner", "vault_token_account")}
    for address in ours:
        assert problem_of(destination_check, world.rpc, address, mint=world.mint, ours=ours) == "ours"


def test_a_fresh_wallet_and_a_used_one_can_be_paid(world):
    fresh = destination_check(world.rpc, GOOD, mint=world.mint, ours=())
    assert (fresh.exists, fresh.token_account_exists) == (False, False)
    used = str(world.customer().pubkey())
    world.finalize()
    found = destination_check(world.rpc, used, mint=world.mint, ours=())
    assert (found.exists, found.token_account_exists) == (True, True)
    assert found.token_account == token_account_address(used, world.mint)


def test_what_is_no_wallet_is_refused_by_name(world):
    def problem(address):
        return problem_of(destination_check, world.rpc, address, mint=world.mint, ours=())

    assert problem(world.mint) == "mint"
    assert problem(str(instructions.TOKEN_PROGRAM)) == "program"
    assert problem(str(instructions.COMPUTE_BUDGET_PROGRAM)) in ("program", "off_curve")


def test_an_account_on_the_curve_that_a_program_controls_or_that_holds_data_is_refused(world):
    """Any key can be turned into a token account, a mint or a nonce account; the curve does not show it."""
    payer = world.key("faucet")
    token_account, odd, nonce, foreign = Keypair(), Keypair(), Keypair(), Keypair()
    system = instructions.SYSTEM_PROGRAM
    cases = [
        (token_account, instructions.TOKEN_PROGRAM, 165, "token_account"),
        (odd, instructions.TOKEN_PROGRAM, 10, "not_a_wallet"),
        (nonce, system, 80, "has_data"),
        (foreign, Pubkey.from_string(new_wallet()), 0, "not_a_wallet"),
    ]
    for key, owner, space, _ in cases:
        params = CreateAccountParams(
            from_pubkey=payer.pubkey(), to_pubkey=key.pubkey(), lamports=10**8, space=space, owner=owner
        )
        world.submit([create_account(params)], payer, key)
    world.finalize()
    for key, _, _, problem in cases:
        address = str(key.pubkey())
        address_check(address)
        assert problem_of(destination_check, world.rpc, address, mint=world.mint, ours=()) == problem


def test_a_frozen_recipient_is_refused_until_thawed(world):
    wallet = str(world.customer().pubkey())
    world.control.freeze(wallet)
    world.finalize()
    assert problem_of(destination_check, world.rpc, wallet, mint=world.mint, ours=()) == "token_account_frozen"
    world.control.freeze(wallet, thaw=True)
    world.finalize()
    assert destination_check(world.rpc, wallet, mint=world.mint, ours=()).token_account_exists


def test_a_token_account_that_somebody_sent_lamports_to_does_not_exist_yet(world):
    """Anybody may put SOL on an address that will be a token account; the payout creates it all the same."""
    wallet = new_wallet()
    world.control.airdrop(token_account_address(wallet, world.mint), 10**7)
    world.finalize()
    assert destination_check(world.rpc, wallet, mint=world.mint, ours=()).token_account_exists is False
    payout = world.payout(wallet)
    world.send(payout)
    world.finalize()
    assert world.usdc(wallet) == USDC


def test_when_the_node_does_not_answer_nothing_is_decided(world):
    world.control.fault("getAccountInfo", "http_503")
    with pytest.raises(RpcUnavailable):
        destination_check(world.rpc, GOOD, mint=world.mint, ours=())
