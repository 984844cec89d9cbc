"""The signer: whose file it reads, and what it refuses to sign."""

from __future__ import annotations

import os
import uuid

import pytest
from solders.hash import Hash
from solders.keypair import Keypair

from billing.chain.errors import KeyFileRefused, PayoutShapeRefused
from billing.chain.keyfile import read_key_file, write_key_file
from billing.chain.signer import KeyFileSigner, SignerPolicy
from billing.chain.transactions import (
    assemble_transaction,
    build_deposit_message,
    build_payout_message,
    token_account_address,
)
from tests.billing.chain.world import USDC, new_wallet

HOT = Keypair()
MINT = new_wallet()
SOURCE = token_account_address(str(HOT.pubkey()), MINT)
POLICY = SignerPolicy(mint=MINT, source_account=SOURCE, payout_limit_micro=100 * USDC)


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "hot.json"
    write_key_file(path, HOT)
    return path


def payout(**changes):
    values = {
        "payout_id": uuid.uuid4(),
        "hot_wallet": str(HOT.pubkey()),
        "mint": MINT,
        "destination_owner": new_wallet(),
        "amount_micro": 100 * USDC,
        "blockhash": str(Hash.new_unique()),
    }
    return build_payout_message(**(values | changes))


def test_it_signs_a_payout_at_the_limit(key_file):
    signer, message = KeyFileSigner(key_file, POLICY), payout()
    assert signer.public_key() == str(HOT.pubkey())
    assert assemble_transaction(message, [signer.sign(message)]).raw


def test_signing_the_same_message_again_gives_the_same_signature(key_file):
    signer, message = KeyFileSigner(key_file, POLICY), payout()
    assert signer.sign(message) == signer.sign(message)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"amount_micro": 100 * USDC + 1}, "amount_over_limit"),
        ({"mint": new_wallet()}, "wrong_mint"),
        ({"hot_wallet": new_wallet()}, "wrong_hot_wallet"),
        ({"source_account": new_wallet()}, "wrong_source"),
        ({"destination_owner": str(HOT.pubkey())}, "pays_itself"),
        ({"unit_price_micro_lamports": 20_000_000}, "fee_over_limit"),
    ],
)
def test_it_refuses_a_payout_beyond_its_policy(key_file, changes, reason):
    with pytest.raises(PayoutShapeRefused) as refusal:
        KeyFileSigner(key_file, POLICY).sign(payout(**changes))
    assert refusal.value.reason == reason


def test_it_refuses_everything_that_is_no_payout(key_file):
    signer = KeyFileSigner(key_file, POLICY)
    transfer = build_deposit_message(
        owner=str(HOT.pubkey()),
        mint=MINT,
        recipient=new_wallet(),
        amount_micro=1,
        blockhash=str(Hash.new_unique()),
        memo=f"gpunex:payout:{uuid.uuid4()}",
    )
    challenge = b"gpunex.example wants you to prove that this wallet is yours"
    for message in (transfer, challenge, b"", b"\x00" * 200):
        with pytest.raises(PayoutShapeRefused):
            signer.sign(message)


@pytest.mark.parametrize("mode", [0o400, 0o600])
def test_a_private_key_file_is_read(key_file, mode):
    key_file.chmod(mode)
    assert read_key_file(key_file) == HOT


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o700, 0o660, 0o000])
def test_a_key_file_open_to_others_is_refused(key_file, mode):
    key_file.chmod(mode)
    with pytest.raises(KeyFileRefused, match=r"mode|Permission"):
        read_key_file(key_file)


def test_a_key_file_of_somebody_else_is_refused(key_file, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(KeyFileRefused, match="owned by"):
        read_key_file(key_file)


def test_a_link_a_folder_and_a_missing_file_are_refused(key_file, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(key_file)
    for path in (link, tmp_path, tmp_path / "missing.json"):
        with pytest.raises(KeyFileRefused):
            read_key_file(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", "[1, 2, 3]", "[300]", "not json", "[" + "1," * 63 + "1]"])
def test_a_damaged_key_file_is_refused_without_showing_it(key_file, content):
    key_file.write_text(content)
    with pytest.raises(KeyFileRefused) as refusal:
        read_key_file(key_file)
    assert refusal.value.__suppress_context__
    assert "64 bytes" in str(refusal.value)


def test_a_key_file_is_never_overwritten(key_file):
    with pytest.raises(FileExistsError):
        write_key_file(key_file, Keypair())
    assert read_key_file(key_file) == HOT
    assert key_file.stat().st_mode & 0o777 == 0o600
