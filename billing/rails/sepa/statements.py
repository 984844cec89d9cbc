"""camt.053: a booked statement, read into entries that can be told apart in whatever statement they come again."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from hashlib import sha256
from xml.etree.ElementTree import Element

from billing.rails.base import BookedEntry, Direction, FileRefused, Statement
from billing.rails.sepa.xml import cents_of, day_of, text_needed, text_of

BOOKED = "BOOK"
OPENING, CLOSING = ("OPBD", "PRCD"), ("CLBD",)
NOT_PROVIDED = "NOTPROVIDED"
"""The standard's word for an end-to-end id that the payer did not give."""
_SIDES = {"DBIT": Direction.DEBIT, "CRDT": Direction.CREDIT}


def statement_read(statement: Element, message_id: str) -> Statement:
    """One ``Stmt``. Raises FileRefused, also when opening balance and entries do not add up to the closing balance."""
    opening, currency, _ = _balance(statement, OPENING)
    closing, closing_currency, closing_on = _balance(statement, CLOSING)
    if currency != closing_currency:
        raise FileRefused.because(f"balances in {currency} and {closing_currency}", "one currency")
    entries: list[BookedEntry] = []
    seen: Counter[str] = Counter()
    booked = [entry for entry in statement.findall("Ntry") if _is_booked(entry)]
    total = 0
    for entry in booked:
        cents, entry_currency = cents_of(entry)
        if entry_currency == currency:
            total += cents if _side(entry) is Direction.CREDIT else -cents
        entries.extend(_entries(entry, seen))
    if opening + total != closing:
        found = f"opening {opening} and entries {total} make {opening + total} cents"
        raise FileRefused.because(found, f"the closing balance of {closing} cents: an entry is missing or too many")
    return Statement(
        message_id=message_id,
        statement_id=text_needed(statement, "Id"),
        account=text_of(statement, "Acct/Id/IBAN") or text_needed(statement, "Acct/Id/Othr/Id"),
        currency=currency,
        closing_on=closing_on,
        opening_cents=opening,
        closing_cents=closing,
        entries=tuple(entries),
    )


def _balance(statement: Element, kinds: tuple[str, ...]) -> tuple[int, str, date]:
    for balance in statement.findall("Bal"):
        if text_of(balance, "Tp/CdOrPrtry/Cd") in kinds:
            cents, currency = cents_of(balance)
            signed = cents if _side(balance) is Direction.CREDIT else -cents
            return signed, currency, day_of(balance, "Dt")
    raise FileRefused.because("no balance of kind " + " or ".join(kinds), "opening and closing booked balances")


def _is_booked(entry: Element) -> bool:
    """Pending entries are the bank's intentions: they come again when they are booked."""
    return (text_of(entry, "Sts/Cd") or text_of(entry, "Sts")) == BOOKED


def _side(element: Element) -> Direction:
    found = text_of(element, "CdtDbtInd")
    if found not in _SIDES:
        raise FileRefused.because(f"CdtDbtInd {found!r}", "DBIT, CRDT")
    return _SIDES[found]


def _entries(entry: Element, seen: Counter[str]) -> list[BookedEntry]:
    """One entry, or the single movements of a batch, if they add up to it."""
    details = entry.findall("NtryDtls/TxDtls")
    if len(details) <= 1:
        return [_booked(entry, details[0] if details else None, None, seen)]
    try:
        amounts = [
            cents_of(each, "Amt") if each.find("Amt") is not None else cents_of(each, "AmtDtls/TxAmt/Amt")
            for each in details
        ]
    except FileRefused:
        return [_booked(entry, None, None, seen, problem="a batch whose movements have no amounts")]
    if {currency for _, currency in amounts} != {cents_of(entry)[1]} or sum(c for c, _ in amounts) != cents_of(entry)[
        0
    ]:
        return [_booked(entry, None, None, seen, problem="a batch whose movements do not add up to it")]
    return [_booked(entry, each, cents, seen) for each, (cents, _) in zip(details, amounts, strict=True)]


def _amount_path(detail: Element) -> str:
    """Newer versions have the amount itself, older ones among the amount's details."""
    return "Amt" if detail.find("Amt") is not None else "AmtDtls/TxAmt/Amt"


def _booked(
    entry: Element, detail: Element | None, cents: int | None, seen: Counter[str], *, problem: str = ""
) -> BookedEntry:
    entry_cents, currency = cents_of(entry)
    side = _side(entry)
    end_to_end = text_of(detail, "Refs/EndToEndId", 35)
    reference = text_of(entry, "AcctSvcrRef", 35) or text_of(detail, "Refs/AcctSvcrRef", 35)
    amount = entry_cents if cents is None else cents
    booked_on = day_of(entry, "BookgDt")
    facts = [
        side.value,
        currency,
        amount,
        booked_on.isoformat(),
        "" if end_to_end == NOT_PROVIDED else end_to_end,
        reference,
    ]
    # Two equal entries of one statement are two movements; the same two in the next statement are the same two.
    base = json.dumps(facts)
    seen[base] += 1
    party = "Cdtr" if side is Direction.DEBIT else "Dbtr"
    return BookedEntry(
        key=sha256(f"{base}#{seen[base]}".encode()).hexdigest(),
        direction=side,
        amount_cents=amount,
        currency=currency,
        booked_on=booked_on,
        end_to_end_id=facts[4],  # type: ignore[arg-type]
        reference=reference,
        counterparty=text_of(detail, f"RltdPties/{party}/Pty/Nm") or text_of(detail, f"RltdPties/{party}/Nm"),
        text=text_of(detail, "RmtInf/Ustrd") or text_of(entry, "AddtlNtryInf"),
        reason=text_of(detail, "RtrInf/Rsn/Cd", 35) or text_of(detail, "RtrInf/Rsn/Prtry", 35),
        problem=problem,
    )
