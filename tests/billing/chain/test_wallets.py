"""Challenges and payment links."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey

from billing.chain.transactions import build_deposit_message, sign_with_secret
from billing.chain.wallets import new_reference, payment_link, reads_as_transaction, sign_challenge, signature_is_valid
from tests.billing.chain.world import new_wallet

CHALLENGE = b"gpunex.example asks: is this wallet yours? Nonce 8c1f"


def test_a_wallet_proves_itself_and_nobody_else():
    wallet, eve = Keypair(), Keypair()
    signature = sign_challenge(message=CHALLENGE, secret=bytes(wallet))
    address = str(wallet.pubkey())
    assert signature_is_valid(address=address, message=CHALLENGE, signature=signature)
    assert not signature_is_valid(address=str(eve.pubkey()), message=CHALLENGE, signature=signature)
    assert not signature_is_valid(address=address, message=CHALLENGE + b" ", signature=signature)
    forged = sign_challenge(message=CHALLENGE, secret=bytes(eve))
    assert not signature_is_valid(address=address, message=CHALLENGE, signature=forged)


@pytest.mark.parametrize("signature", ["", "x", "0" * 88, "1" * 64, "1" * 88])
def test_a_signature_of_the_wrong_form_is_not_valid(signature):
    assert not signature_is_valid(address=new_wallet(), message=CHALLENGE, signature=signature)
    assert not signature_is_valid(address="nonsense", message=CHALLENGE, signature=signature)


def test_a_challenge_is_no_transaction_and_a_transaction_no_challenge():
    customer = Keypair()
    message = build_deposit_message(
        owner=str(customer.pubkey()),
        mint=new_wallet(),
        recipient=new_wallet(),
        amount_micro=1,
        blockhash=str(Hash.new_unique()),
    )
    versioned = to_bytes_versioned(MessageV0.try_compile(customer.pubkey(), [], [], Hash.new_unique()))
    assert not reads_as_transaction(CHALLENGE)
    assert not reads_as_transaction(b"")
    for text in (message, versioned, sign_with_secret(message, bytes(customer)).raw):
        assert reads_as_transaction(text)


def test_references_are_addresses_and_never_the_same():
    references = {new_reference() for _ in range(50)}
    assert len(references) == 50
    assert all(str(Pubkey.from_string(reference)) == reference for reference in references)


@pytest.mark.parametrize(
    ("micro", "text"), [(25_000_000, "25"), (1, "0.000001"), (12_400_000, "12.4"), (10**9, "1000")]
)
def test_a_payment_link_says_what_to_pay(micro, text):
    recipient, mint, reference = new_wallet(), new_wallet(), new_reference()
    link = payment_link(
        recipient=recipient, mint=mint, reference=reference, amount_micro=micro, label="GPUnex & Co", memo="top up"
    )
    parts = urlsplit(link)
    assert (parts.scheme, parts.path) == ("solana", recipient)
    assert "+" not in parts.query, "wallets do not read a plus as a space"
    assert parse_qs(parts.query) == {
        "spl-token": [mint],
        "reference": [reference],
        "amount": [text],
        "label": ["GPUnex & Co"],
        "memo": ["top up"],
    }


def test_without_an_amount_the_customer_chooses():
    link = payment_link(recipient=new_wallet(), mint=new_wallet(), reference=new_reference())
    assert set(parse_qs(urlsplit(link).query)) == {"spl-token", "reference"}
