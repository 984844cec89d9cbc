"""The SEPA rail by itself: what it writes is what a bank takes, and what it cannot trust it refuses whole."""

from __future__ import annotations

from datetime import UTC, date, datetime
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.euros import cents_for, micro_for, parse_reference
from billing.rails import RAILS
from billing.rails.base import FILE_BYTES_MAX, FileRefused, OurAccount, Payment, PaymentOrder, StatusReport
from billing.rails.sepa.accounts import sepa_text
from billing.rails.sepa.countries import SUPPORTED_COUNTRIES
from core.errors import Invalid
from core.money import format_cents
from tests.billing.bank import IBAN, OTHER_IBAN, OUR_BIC, OUR_IBAN
from tests.billing.bank_files import Entry, report, statement

SEPA = RAILS["sepa"]
PAYER = OurAccount("GPUnex", OUR_IBAN, OUR_BIC)
NAMESPACE = "{urn:iso:std:iso:20022:tech:xsd:pain.001.001.09}"


def order(*payments: Payment, day: date = date(2026, 12, 7), name: str = "GPX1") -> PaymentOrder:
    return PaymentOrder(name, datetime(2026, 12, 7, 9, tzinfo=UTC), day, PAYER, payments)


def payment(name: str = "E1", holder: str = "Ada", account: str = IBAN, cents: int = 100) -> Payment:
    return Payment(name, holder, account, cents, "GPUnex payout")


# -- Accounts, names, days ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("", "DE", "0x52908400098527886E0F7030069857D2E4169EE7", "DE89370400440532013001", "NL91ABNA041716430"),
        *("GB82WEST12345698765432", "CH9300762011623852957", "US12345678901234567890", "'; DROP TABLE x; --"),
    ],
)
def test_what_is_no_iban_that_we_pay_to_is_refused_by_field(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        SEPA.account_check(text, field="account")
    assert list(refusal.value.fields) == ["account"]


def test_every_single_wrong_character_is_found() -> None:
    for place in range(len(IBAN)):
        wrong = IBAN[:place] + ("1" if IBAN[place] != "1" else "2") + IBAN[place + 1 :]
        with pytest.raises(Invalid):
            SEPA.account_check(wrong, field="account")


def test_an_iban_is_kept_without_blanks() -> None:
    assert SEPA.account_check(" nl91 abna 0417 1643 00 ", field="account") == IBAN
    assert {"DE", "NL", "FR"} <= SUPPORTED_COUNTRIES and not {"GB", "CH", "US"} & SUPPORTED_COUNTRIES


@given(st.text(max_size=200))
def test_no_name_can_break_a_line_of_a_file(name: str) -> None:
    found = sepa_text(name, 70)
    assert len(found) <= 70 and "//" not in found and not found.startswith("/")
    assert all(letter.isascii() and letter.isprintable() for letter in found)


def test_a_name_keeps_what_banks_can_carry() -> None:
    assert SEPA.holder_check("Ünal & Söhne\r\n\x00GmbH", field="holder") == "Unal + Sohne GmbH"
    assert SEPA.holder_check("李伟", field="holder") == "Li Wei"
    with pytest.raises(Invalid) as refusal:
        SEPA.holder_check("…!!\x1b", field="holder")
    assert list(refusal.value.fields) == ["holder"]


@pytest.mark.parametrize(
    ("day", "open_day"),
    [
        ("2026-12-25", "2026-12-28"),
        ("2026-04-03", "2026-04-07"),
        ("2026-05-01", "2026-05-04"),
        ("2026-12-07", "2026-12-07"),
    ],
)
def test_banks_are_closed_on_target_holidays(day: str, open_day: str) -> None:
    assert SEPA.business_day(date.fromisoformat(day)) == date.fromisoformat(open_day)


# -- What we write -----------------------------------------------------------------------------------------------------


def test_the_same_order_gives_the_same_bytes_with_our_own_ids() -> None:
    wanted = order(payment("E1", "Ünal & <b>", cents=12_345), payment("E2", account=OTHER_IBAN, cents=1))
    data = SEPA.file_write(wanted)
    assert data == SEPA.file_write(wanted)
    root = fromstring(data)
    assert root.findtext(f".//{NAMESPACE}MsgId") == "GPX1"
    assert [each.text for each in root.iter(f"{NAMESPACE}EndToEndId")] == ["E1", "E2"]
    assert [each.text for each in root.iter(f"{NAMESPACE}InstdAmt")] == ["123.45", "0.01"]
    assert {each.text for each in root.iter(f"{NAMESPACE}CtrlSum")} == {"123.46"}
    assert [each.text for each in root.iter(f"{NAMESPACE}BtchBookg")] == ["false"]  # each booked, and told, by itself


@pytest.mark.parametrize(
    "wrong",
    [
        order(),
        order(payment("E1"), payment("E1")),
        order(payment(account="NL91ABNA0417164301")),
        order(payment(account="GB82WEST12345698765432")),
        order(payment(account="NL91 ABNA 0417 1643 00")),
        order(payment(cents=0)),
        order(payment(cents=-5)),
        order(payment(cents=10**11)),
        order(payment("E/1")),
        order(payment("E" * 36)),
        order(payment(), name="has blank"),
        order(payment(), day=date(2026, 12, 25)),
        order(payment(), day=date(2026, 12, 6)),
    ],
    ids=str,
)
def test_an_order_that_a_bank_would_refuse_or_pay_wrongly_is_never_written(wrong: PaymentOrder) -> None:
    with pytest.raises(FileRefused) as refusal:
        SEPA.file_write(wrong)
    assert list(refusal.value.fields) == ["file"]


# -- What we read ------------------------------------------------------------------------------------------------------


def bomb(doctype: bytes, inside: bytes = b"S1") -> bytes:
    """A statement that is sound but for its document type, and for what stands in its name."""
    sound = statement(Entry(-100)).replace(b"<MsgId>S1<", b"<MsgId>" + inside + b"<")
    return sound.replace(b"?><Document", b"?><!DOCTYPE d " + doctype + b"><Document")


LAUGHS = bomb(b'[<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;">]', b"&b;")
OUTSIDE = bomb(b'[<!ENTITY x SYSTEM "file:///etc/hostname">]', b"&x;")
REMOTE = bomb(b'SYSTEM "http://127.0.0.1:9/evil.dtd"')
EMPTY = bomb(b"[]")


@pytest.mark.parametrize(
    "data",
    [
        *(LAUGHS, OUTSIDE, REMOTE, EMPTY, b"", b"\x00\xff\xfe", b"<a>", b"<Document/>", b"{}", b"ISO 20022" * 1000),
        b'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"/>',
        b'<?xml version="1.0" encoding="no-such-thing"?><Document/>',
        b'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"/>',
        b'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt/></Document>',
        b"<a>" * 50_000 + b"</a>" * 50_000,
        b" " * (FILE_BYTES_MAX + 1),
        statement(Entry(-100)).replace(b"1.00", b"1.005"),
        statement(Entry(-100)).replace(b"1.00", b"-1.00"),
        statement(Entry(-100)).replace(b"1.00", b"NaN"),
        statement(Entry(-100)).replace(b"1.00", b"1e9"),
        statement(Entry(-100)).replace(b"DBIT", b"BOTH"),
        statement(Entry(-100)).replace(b"<BookgDt><Dt>2026-12-07</Dt>", b"<BookgDt><Dt>2026-13-07</Dt>"),
        statement(Entry(-100)).replace(b"CLBD", b"ITBD"),
        statement(Entry(-100), missing=1),
        report("GPX1").replace(b"OrgnlMsgId", b"OrgnlMsg"),
    ],
    ids=lambda data: str(data[:40]) if len(data) < 400 else f"{len(data)} bytes of {data[-60:]!r}"[:60],
)
def test_what_is_no_sound_answer_of_a_bank_is_refused_whole(data: bytes) -> None:
    with pytest.raises(FileRefused) as refusal:
        SEPA.file_read(data)
    assert list(refusal.value.fields) == ["file"]
    assert len(str(refusal.value)) < 500


def test_a_statement_is_read_entry_by_entry() -> None:
    (found,) = SEPA.file_read(
        statement(
            Entry(-11_261, "E1", "REF1", name="A\x85B  \u2028C"),
            Entry(11_261, "E1", reason="AC04"),
            Entry(-500, status="PDNG"),
            Entry(-300, "NOTPROVIDED"),
            Entry(-30, parts=(("E3", 10), ("E4", 20))),
            Entry(-30, parts=(("E5", 10), ("E6", 10))),
        )
    )  # type: ignore[misc]
    facts = [(e.direction.value, e.amount_cents, e.end_to_end_id, bool(e.problem)) for e in found.entries]
    assert facts == [
        ("debit", 11_261, "E1", False),
        ("credit", 11_261, "E1", False),
        ("debit", 300, "", False),
        ("debit", 10, "E3", False),
        ("debit", 20, "E4", False),
        ("debit", 30, "", True),
    ]
    assert found.entries[0].counterparty == "A B C" and found.entries[1].reason == "AC04"
    assert len({entry.key for entry in found.entries}) == 6


def test_the_same_movement_has_the_same_name_in_every_statement() -> None:
    (one,) = SEPA.file_read(statement(Entry(-100, "E1", "R"), Entry(-5), Entry(-5)))  # type: ignore[misc]
    (two,) = SEPA.file_read(statement(Entry(-7), Entry(-5), Entry(-100, "E1", "R"), Entry(-5), name="S2"))  # type: ignore[misc]
    assert {entry.key for entry in one.entries} < {entry.key for entry in two.entries}
    assert len({entry.key for entry in one.entries}) == 3


def test_an_answer_is_read_line_by_line() -> None:
    found = SEPA.file_read(report("GPX1", ("E1", "ACSC", ""), ("E2", "RJCT", "AC04"), ("E3", "WHAT", "")))
    assert isinstance(found, StatusReport)
    assert [(line.verdict.value, line.reason) for line in found.lines] == [
        ("accepted", ""),
        ("rejected", "AC04"),
        ("pending", ""),
    ]
    whole = SEPA.file_read(report("GPX1", group="RJCT", reason="FF01"))
    assert isinstance(whole, StatusReport)
    assert (whole.whole, whole.whole_reason, whole.lines) == ("rejected", "FF01", ())


# -- Euros -------------------------------------------------------------------------------------------------------------


def test_the_worked_example() -> None:
    terms = {"reference_micro": parse_reference("1.1702"), "margin_bps": 50}
    assert cents_for(132_450_000, **terms) == 112_61
    assert micro_for(112_61, **terms) == 132_438_415
    assert format_cents(1_234_05) == "1,234.05"


@given(amount=st.integers(0, 10**13), reference=st.integers(100_000, 10_000_000), margin=st.integers(0, 9_999))
def test_cents_are_floored_and_what_they_take_buys_exactly_them(amount: int, reference: int, margin: int) -> None:
    terms = {"reference_micro": reference, "margin_bps": margin}
    cents = cents_for(amount, **terms)
    taken = micro_for(cents, **terms)
    assert 0 <= taken <= amount
    assert cents_for(taken, **terms) == cents
    assert cents == 0 or cents_for(taken - 1, **terms) == cents - 1
    assert micro_for(cents + 1, **terms) > amount  # the rest is worth less than a cent


@pytest.mark.parametrize("text", ["", "0", "-1.1", "1,17", "1.12345678", "NaN", "Infinity", "1000", "1e-9", "eins"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_reference(text)
    assert list(refusal.value.fields) == ["reference"]
