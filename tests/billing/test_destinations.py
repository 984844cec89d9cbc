"""A payout wallet is somebody's wallet, and whoever enters it holds its key."""

from __future__ import annotations

from datetime import timedelta

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account

from accounts.models import Notification, Party
from billing.chain.instructions import TOKEN_ACCOUNT_RENT_LAMPORTS, TOKEN_ACCOUNT_SIZE, TOKEN_PROGRAM
from billing.chain.transactions import token_account_address
from billing.chain.wallets import reads_as_transaction
from billing.models import Destination, DestinationChallenge
from billing.services import NetworkUnavailable, destination_challenge, destination_prove, policies_demo_install
from core import clock
from core.errors import Conflict, Invalid
from tests.billing.chain.world import World

INITIALIZE_ACCOUNT_3 = 18

pytestmark = pytest.mark.django_db


def challenge(party: Party, wallet: Keypair) -> str:
    return destination_challenge(party=party, address=str(wallet.pubkey()), now=clock.now()).text


def prove(party: Party, wallet: Keypair, text: str, signer: Keypair | None = None) -> Destination:
    signature = str((signer or wallet).sign_message(text.encode()))
    return destination_prove(party=party, address=str(wallet.pubkey()), signature=signature, now=clock.now())


def test_a_wallet_is_proven_by_signing(chain: World, provider: Party) -> None:
    wallet = Keypair()
    text = challenge(provider, wallet)
    for part in (str(provider.pk), str(wallet.pubkey()), chain.facts["genesis_hash"], "Purpose: payout destination"):
        assert part in text
    assert not reads_as_transaction(text.encode())
    before = clock.now()
    made = prove(provider, wallet, text)
    assert made.usable_from >= before + timedelta(hours=72)
    assert [row.kind for row in Notification.objects.all()] == ["destination_changed"]


def test_a_challenge_is_used_up_by_the_first_answer(chain: World, provider: Party) -> None:
    wallet = Keypair()
    text = challenge(provider, wallet)
    with pytest.raises(Invalid) as refusal:
        prove(provider, wallet, text, signer=Keypair())
    assert "signature" in refusal.value.fields
    with pytest.raises(Conflict):
        prove(provider, wallet, text)
    assert not Destination.objects.exists()


def test_a_challenge_is_good_for_ten_minutes_and_for_one_party(chain: World, provider: Party, customer: Party) -> None:
    wallet = Keypair()
    text = challenge(provider, wallet)
    with pytest.raises(Conflict):
        prove(customer, wallet, text)
    DestinationChallenge.objects.update(expires_at=clock.now())
    with pytest.raises(Conflict):
        prove(provider, wallet, text)


def test_a_change_replaces_the_old_one_and_the_same_again_changes_nothing(chain: World, provider: Party) -> None:
    policies_demo_install(now=clock.now())
    first, second = Keypair(), Keypair()
    one = prove(provider, first, challenge(provider, first))
    again = prove(provider, first, challenge(provider, first))
    two = prove(provider, second, challenge(provider, second))
    one.refresh_from_db()
    assert (one.pk, one.state, two.state) == (again.pk, "replaced", "active")
    assert two.usable_from <= clock.now()


def bad_addresses(chain: World, wallet: str) -> dict[str, str]:
    return {
        "not_base58": "0OIl",
        "wrong_length": "abc",
        "off_curve": token_account_address(wallet, chain.mint),
        "mint": chain.facts["decoy_mint"],
        "ours": chain.mint,
        "program": "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
        "burn_address": "11111111111111111111111111111111",
    }


def test_what_is_no_wallet_is_refused_with_the_field_named(chain: World, provider: Party) -> None:
    wallet = str(chain.customer().pubkey())
    ours = {chain.hot_wallet, chain.facts["vault_owner"], chain.facts["vault_token_account"], chain.mint}
    for address in [*bad_addresses(chain, wallet).values(), *ours]:
        with pytest.raises(Invalid) as refusal:
            destination_challenge(party=provider, address=address, now=clock.now())
        assert "address" in refusal.value.fields, address
    assert not DestinationChallenge.objects.exists()


def token_account_with_a_key(chain: World) -> str:
    """A token account at an address on the curve: nothing in its form tells it from a wallet."""
    payer, account = chain.customer(), Keypair()
    create = create_account(
        CreateAccountParams(
            from_pubkey=payer.pubkey(),
            to_pubkey=account.pubkey(),
            lamports=TOKEN_ACCOUNT_RENT_LAMPORTS,
            space=TOKEN_ACCOUNT_SIZE,
            owner=TOKEN_PROGRAM,
        )
    )
    metas = [AccountMeta(account.pubkey(), False, True), AccountMeta(Pubkey.from_string(chain.mint), False, False)]
    initialize = Instruction(TOKEN_PROGRAM, bytes([INITIALIZE_ACCOUNT_3]) + bytes(payer.pubkey()), metas)
    signature = chain.submit([create, initialize], payer, account)
    chain.finalize()
    assert chain.error_of(signature) is None
    return str(account.pubkey())


def test_a_mint_and_a_token_account_are_named_as_what_they_are(chain: World, provider: Party) -> None:
    for address, words in (
        (chain.facts["decoy_mint"], "token's mint"),
        (token_account_with_a_key(chain), "token account"),
    ):
        with pytest.raises(Invalid, match=words) as refusal:
            destination_challenge(party=provider, address=address, now=clock.now())
        assert "address" in refusal.value.fields


def test_a_silent_chain_is_said_to_be_silent(chain: World, provider: Party) -> None:
    wallet = Keypair()
    challenge(provider, wallet)
    chain.control.fault("getAccountInfo", "http_503", times=1)
    with pytest.raises(NetworkUnavailable):
        challenge(provider, wallet)
    assert DestinationChallenge.objects.count() == 1
