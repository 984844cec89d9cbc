"""The transactions we build, byte for byte, and the messages the parser refuses."""

import uuid

import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message, MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.memo.instructions import create_memo
from spl.memo.models import MemoParams
from spl.token import models as token_models
from spl.token.constants import TOKEN_PROGRAM_ID
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    freeze_account,
    get_associated_token_address,
    mint_to_checked,
    thaw_account,
    transfer_checked,
)

from billing.chain import instructions
from billing.chain.errors import PayoutShapeRefused, TransactionInvalid
from billing.chain.transactions import (
    assemble_transaction,
    build_deposit_message,
    build_payout_message,
    parse_payout_message,
    payout_ids_in_memo,
    payout_memo,
    sign_with_secret,
    token_account_address,
)

PAYOUT = uuid.UUID("0190f2aa-0000-7000-8000-00000000000a")
HOT, OWNER, MINT = Keypair(), Keypair().pubkey(), Keypair().pubkey()
BLOCKHASH = Hash.new_unique()


def payout(**changes):
    values = {
        "payout_id": PAYOUT,
        "hot_wallet": str(HOT.pubkey()),
        "mint": str(MINT),
        "destination_owner": str(OWNER),
        "amount_micro": 12_400_000,
        "blockhash": str(BLOCKHASH),
        "unit_price_micro_lamports": 1_000,
    }
    return build_payout_message(**(values | changes))


def library_steps(amount=12_400_000):
    """The same payout from solana-py's builders."""
    payer = HOT.pubkey()
    return [
        set_compute_unit_limit(80_000),
        set_compute_unit_price(1_000),
        create_memo(
            MemoParams(program_id=MEMO_PROGRAM_ID, signer=payer, message=f"gpunex:payout:{PAYOUT}".encode()),
        ),
        create_idempotent_associated_token_account(payer, OWNER, MINT),
        transfer_checked(
            token_models.TransferCheckedParams(
                program_id=TOKEN_PROGRAM_ID,
                source=get_associated_token_address(payer, MINT),
                mint=MINT,
                dest=get_associated_token_address(OWNER, MINT),
                owner=payer,
                amount=amount,
                decimals=6,
            )
        ),
    ]


def test_a_payout_equals_the_one_of_the_library_builders():
    assert payout() == bytes(Message.new_with_blockhash(library_steps(), HOT.pubkey(), BLOCKHASH))


def test_minting_and_freezing_equal_the_library_builders():
    account, authority = Keypair().pubkey(), Keypair().pubkey()
    common = {"program_id": TOKEN_PROGRAM_ID, "mint": MINT}
    assert instructions.mint_to_checked(MINT, account, authority, 5) == mint_to_checked(
        token_models.MintToCheckedParams(dest=account, mint_authority=authority, amount=5, decimals=6, **common)
    )
    freezing = token_models.FreezeAccountParams(account=account, authority=authority, multi_signers=[], **common)
    thawing = token_models.ThawAccountParams(account=account, authority=authority, multi_signers=[], **common)
    assert instructions.freeze(account, MINT, authority) == freeze_account(freezing)
    assert instructions.freeze(account, MINT, authority, thaw=True) == thaw_account(thawing)


def test_a_payout_is_read_back_as_it_was_built():
    shape = parse_payout_message(payout())
    assert shape.payout_id == PAYOUT
    assert shape.hot_wallet == str(HOT.pubkey())
    assert shape.source_account == token_account_address(str(HOT.pubkey()), str(MINT))
    assert shape.mint == str(MINT)
    assert shape.destination_owner == str(OWNER)
    assert shape.destination_account == token_account_address(str(OWNER), str(MINT))
    assert shape.amount_micro == 12_400_000
    assert shape.blockhash == str(BLOCKHASH)
    assert shape.fee_lamports == 5_000 + 80


def test_the_fee_bound_rounds_up():
    assert parse_payout_message(payout(unit_limit=80_001)).fee_lamports == 5_000 + 81


@pytest.mark.parametrize("amount", [0, -1, 2**64])
def test_an_amount_out_of_range_is_not_built(amount):
    with pytest.raises(TransactionInvalid, match="amount_micro"):
        payout(amount_micro=amount)


def test_an_address_that_is_none_is_not_built():
    with pytest.raises(TransactionInvalid, match="not an address"):
        payout(destination_owner="not base58!")


def refuse(steps, payer=None):
    message = bytes(Message.new_with_blockhash(steps, payer or HOT.pubkey(), BLOCKHASH))
    with pytest.raises(PayoutShapeRefused) as refusal:
        parse_payout_message(message)
    return refusal.value.reason


def test_it_refuses_one_instruction_more():
    assert refuse([*library_steps(), library_steps()[4]]) == "wrong_programs"


def test_it_refuses_another_order():
    first, second, memo, create, transfer = library_steps()
    assert refuse([first, second, create, memo, transfer]) == "wrong_programs"


def test_it_refuses_a_transfer_to_an_account_that_is_not_the_owners():
    steps = library_steps()
    thief = Keypair().pubkey()
    source = get_associated_token_address(HOT.pubkey(), MINT)
    steps[4] = instructions.transfer_checked(source, MINT, thief, HOT.pubkey(), 1)
    assert refuse(steps) == "not_canonical"


@pytest.mark.parametrize("tag", [instructions.TRANSFER_TAG, instructions.SET_AUTHORITY_TAG, instructions.FREEZE_TAG])
def test_it_refuses_any_other_token_instruction(tag):
    steps = library_steps()
    data = bytes([tag]) + bytes(steps[4].data)[1:]
    steps[4] = type(steps[4])(steps[4].program_id, data, steps[4].accounts)
    assert refuse(steps) == "not_canonical"


def test_it_refuses_a_reference_on_the_transfer():
    steps = library_steps()
    source, destination = (get_associated_token_address(key, MINT) for key in (HOT.pubkey(), OWNER))
    steps[4] = instructions.transfer_checked(source, MINT, destination, HOT.pubkey(), 1, (Keypair().pubkey(),))
    assert refuse(steps) == "not_canonical"


@pytest.mark.parametrize("text", ["", "hello", f"gpunex:payout:{PAYOUT} ", f"gpunex:payout:{PAYOUT}".upper()])
def test_it_refuses_another_memo(text):
    steps = library_steps()
    steps[2] = instructions.memo(text, HOT.pubkey())
    assert refuse(steps) == "wrong_memo"


def test_it_refuses_a_memo_that_is_not_text():
    steps = library_steps()
    steps[2] = type(steps[2])(steps[2].program_id, b"\xff\xfe", steps[2].accounts)
    assert refuse(steps) == "malformed"


def test_it_refuses_a_payer_other_than_the_owner_of_the_source():
    assert refuse(library_steps(), payer=Keypair().pubkey()) == "not_canonical"


def test_it_refuses_versioned_messages_and_noise():
    versioned = to_bytes_versioned(MessageV0.try_compile(HOT.pubkey(), library_steps(), [], BLOCKHASH))
    for message, reason in [(versioned, "not_legacy"), (b"", "not_legacy"), (b"\x01\x02", "not_a_message")]:
        with pytest.raises(PayoutShapeRefused) as refusal:
            parse_payout_message(message)
        assert refusal.value.reason == reason


def test_it_refuses_trailing_bytes():
    with pytest.raises(PayoutShapeRefused):
        parse_payout_message(payout() + b"\x00")


def test_every_single_byte_of_a_payout_matters():
    """Whatever byte is changed, the message is refused or says something else: nothing in it is left unread."""
    message, shape = payout(), parse_payout_message(payout())
    for position in range(len(message)):
        changed = bytearray(message)
        changed[position] ^= 1
        try:
            assert parse_payout_message(bytes(changed)) != shape
        except PayoutShapeRefused:
            continue


def test_a_signature_that_does_not_fit_is_not_assembled():
    with pytest.raises(TransactionInvalid, match="does not fit"):
        assemble_transaction(payout(), [bytes(Keypair().sign_message(payout()))])


def test_a_transaction_larger_than_a_packet_is_not_assembled():
    message = build_deposit_message(
        owner=str(HOT.pubkey()),
        mint=str(MINT),
        recipient=str(OWNER),
        amount_micro=1,
        blockhash=str(BLOCKHASH),
        memo="x" * 1_000,
    )
    with pytest.raises(TransactionInvalid, match="1232"):
        sign_with_secret(message, bytes(HOT))


def test_payout_ids_are_found_in_a_nodes_memo_field():
    other = uuid.uuid4()
    field = f"[50] {payout_memo(PAYOUT)}; [50] {payout_memo(other)}"
    assert payout_ids_in_memo(field) == (PAYOUT, other)
    assert payout_ids_in_memo("[5] hello") == ()
    assert payout_ids_in_memo(None) == ()


def test_the_token_account_address_is_the_derived_one():
    derived, _ = Pubkey.find_program_address(
        [bytes(OWNER), bytes(TOKEN_PROGRAM_ID), bytes(MINT)], instructions.ASSOCIATED_TOKEN_PROGRAM
    )
    assert token_account_address(str(OWNER), str(MINT)) == str(derived)
