"""Taking in what the bank sends. A line is paid when a booked debit says so, by its id and to the cent; nothing else pays it.

What does not fit exactly moves nothing and waits in suspense with the reason. The same file, and the same movement in
another file, are taken once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from typing import Any

import structlog
from django.db import transaction

from accounts.models import Party, User
from billing.models import Account, BankEntry, BankFile, BankLine, BankMessage
from billing.rails import RAILS
from billing.rails.base import BookedEntry, Direction, FileRefused, LineReport, Statement, StatusReport, Verdict, masked
from billing.services.audit import audit_record
from billing.services.bank.account import our_account
from billing.services.bank.booking import line_reject, line_return, line_settle
from billing.services.bank.files import bank_lock
from billing.services.bank.staff import staff_check
from billing.services.ledger.accounts import account_open
from billing.states import BANK_ENTRY, BANK_LINE, BANK_LINE_LIVE
from core.errors import Invalid
from core.locks import lock_name, lock_rows

log = structlog.get_logger(__name__)

SUSPENSE, KNOWN, PENDING = "suspense", "known", "pending"
"""Outcomes that are no line's: waits for staff; had it before; the bank has not decided."""


def bank_message_import(*, data: bytes, scheme: str, actor: User, now: datetime) -> BankMessage:
    """Take in a file from the bank: its answer to one of ours (pain.002), or booked statements (camt.053).

    All of it or nothing. The same bytes again give the earlier answer and change nothing.
    Raises Denied, BankUnavailable, Invalid (field scheme), FileRefused (field file: not readable, not booked, does not add up,
    another account, or about a file that is not ours).
    """
    staff_check(actor, "add_bankmessage")
    if scheme not in RAILS:
        raise Invalid.field("scheme", found=scheme, allowed=", ".join(sorted(RAILS)))
    earlier = BankMessage.objects.filter(sha256=sha256(data).digest()).first()
    if earlier is not None:
        return earlier
    found = RAILS[scheme].file_read(data)
    account = our_account(scheme).account
    if not isinstance(found, StatusReport):
        _check_account(found, scheme, account)
    with transaction.atomic():
        lock_name(bank_lock(scheme))
        earlier = BankMessage.objects.filter(sha256=sha256(data).digest()).first()
        if earlier is not None:
            return earlier
        intake = _Intake(scheme, data, actor, now)
        message = intake.report(found) if isinstance(found, StatusReport) else intake.statements(found)
        after = {"name": message.name, "outcome": message.outcome}
        audit_record(verb="bank_message_import", subject=message, actor=actor, before={}, after=after, now=now)
    log.info("bank_message_imported", name=message.name, kind=message.kind, outcome=message.outcome)
    return message


def payees_lock(parties: Iterable[Party]) -> None:
    """Lock the live accounts that a booking may touch, in id order, before anything of it is written (docs/locking.md)."""
    kinds = (Account.Kind.PROVIDER_PAYABLE, Account.Kind.PAYOUT_IN_FLIGHT)
    ids = [account_open(kind=kind, owner=party).pk for party in parties for kind in kinds]
    lock_rows(Account.objects.all(), ids)


def _check_account(statements: tuple[Statement, ...], scheme: str, account: str) -> None:
    for statement in statements:
        if statement.account != account:
            raise FileRefused.because(
                f"a statement of {masked(statement.account)}", f"of {masked(account)}, our account"
            )
        if statement.currency != RAILS[scheme].currency:
            raise FileRefused.because(f"a statement in {statement.currency}", RAILS[scheme].currency)


class _Intake:
    """One file from the bank, in one transaction."""

    def __init__(self, scheme: str, data: bytes, actor: User, now: datetime) -> None:
        self.scheme, self.data, self.actor, self.now = scheme, data, actor, now
        self.outcome: Counter[str] = Counter()
        self.lines: dict[str, BankLine] = {}

    def report(self, report: StatusReport) -> BankMessage:
        file = BankFile.objects.filter(message_id=report.original_message_id, scheme=self.scheme).first()
        if file is None:
            raise FileRefused.because(f"an answer to {report.original_message_id}", "to a file of ours")
        said = list(report.lines)
        named = {line.end_to_end_id for line in said}
        if report.whole is not None and (not said or report.whole is Verdict.REJECTED):
            rest = file.lines.exclude(end_to_end_id__in=named).values_list("end_to_end_id", flat=True)
            said += [LineReport(name, report.whole, report.whole_reason) for name in rest]
        self._load({line.end_to_end_id for line in said})
        judged = [(line, self._judge(file, line)) for line in said]
        remarks = {entry.key: entry for entry in (self._remark(report, line, why) for line, why in judged if why)}
        known = self._known(remarks)
        fresh = [entry for key, entry in remarks.items() if key not in known]
        return self._store(BankMessage.Kind.REPORT, report.message_id, fresh)

    def statements(self, statements: tuple[Statement, ...]) -> BankMessage:
        booked = [entry for statement in statements for entry in statement.entries]
        known = self._known(entry.key for entry in booked)
        fresh = {entry.key: entry for entry in booked if entry.key not in known}
        self.outcome[KNOWN] += len(booked) - len(fresh)
        # Debits before credits: a payment and its return may stand on one statement, in any order.
        ordered = sorted(fresh.values(), key=lambda entry: (entry.booked_on, entry.direction is Direction.CREDIT))
        self._load({entry.end_to_end_id for entry in ordered if entry.end_to_end_id})
        last = max(statements, key=lambda statement: statement.closing_on)
        return self._store(
            BankMessage.Kind.STATEMENT,
            last.message_id,
            [self._entry(entry) for entry in ordered],
            closing_on=last.closing_on,
            closing_cents=last.closing_cents,
        )

    # The bank's answer to a file

    def _judge(self, file: BankFile, said: LineReport) -> str:
        """Follow what it says about one line; returns why it cannot be followed, or nothing."""
        line = self.lines.get(said.end_to_end_id)
        if line is None or line.file_id != file.pk:
            return "no line of this file"
        if said.verdict is Verdict.PENDING:
            self.outcome[PENDING] += 1
        elif said.verdict is Verdict.ACCEPTED and line.state in (*BANK_LINE_LIVE, BankLine.State.SETTLED):
            if line.state == BankLine.State.WRITTEN:
                BANK_LINE.move(line, to=BankLine.State.ACCEPTED, at=self.now, actor=self.actor)
            self.outcome[BankLine.State.ACCEPTED.value] += 1
        elif said.verdict is Verdict.REJECTED and line.state in (*BANK_LINE_LIVE, BankLine.State.REJECTED):
            if line.state in BANK_LINE_LIVE:
                line_reject(line, reason=said.reason or "no reason given", now=self.now)
            self.outcome[BankLine.State.REJECTED.value] += 1
        else:
            return f"the bank says {said.verdict}, the line is {line.state}"
        return ""

    def _remark(self, report: StatusReport, said: LineReport, problem: str) -> BankEntry:
        name = f"{report.message_id}|{said.end_to_end_id}|{said.verdict}"
        return BankEntry(
            key=sha256(name.encode()).hexdigest(),
            side=BankEntry.Side.REPORT,
            currency=RAILS[self.scheme].currency,
            amount_cents=0,
            end_to_end_id=said.end_to_end_id,
            text=f"{said.verdict}: {said.reason}"[:200],
            line=self.lines.get(said.end_to_end_id),
            reason=problem[:200],
        )

    # A booked entry

    def _entry(self, entry: BookedEntry) -> BankEntry:
        line = self.lines.get(entry.end_to_end_id) if entry.end_to_end_id else None
        return BankEntry(
            key=entry.key,
            side=entry.direction.value,
            currency=entry.currency,
            amount_cents=entry.amount_cents,
            booked_on=entry.booked_on,
            end_to_end_id=entry.end_to_end_id,
            reference=entry.reference,
            counterparty=entry.counterparty,
            text=" ".join(part for part in (entry.reason, entry.text) if part)[:200],
            line=line,
            reason=self._mismatch(entry, line),
        )

    def _mismatch(self, entry: BookedEntry, line: BankLine | None) -> str:
        """Why an entry is no plain payment or return of this line, as the line is at this point; empty: it is one."""
        if entry.problem:
            return entry.problem
        if line is None:
            return "unknown end-to-end id" if entry.end_to_end_id else "no end-to-end id"
        if (entry.currency, entry.amount_cents) != (line.file.currency, line.amount_cents):
            booked, wanted = (
                f"{entry.amount_cents} cents {entry.currency}",
                f"{line.amount_cents} cents {line.file.currency}",
            )
            return f"{booked} are booked, the line is of {wanted}"
        return ""

    def _book(self, entry: BankEntry) -> None:
        """Use a stored entry for its line, if it still fits: a second debit finds the line settled."""
        line = entry.line
        if entry.side == BankEntry.Side.REPORT or entry.reason or line is None:
            self.outcome[SUSPENSE] += 1
        elif entry.side == BankEntry.Side.DEBIT and line.state in BANK_LINE_LIVE:
            self._match(entry, BankEntry.Outcome.SETTLED, line_settle(line, now=self.now, actor=self.actor))
        elif entry.side == BankEntry.Side.CREDIT and line.state == BankLine.State.SETTLED:
            reason = entry.text or "no reason given"
            moved = line_return(line, arrived_cents=entry.amount_cents, reason=reason, now=self.now, actor=self.actor)
            self._match(entry, BankEntry.Outcome.RETURNED, moved)
        else:
            self.outcome[SUSPENSE] += 1
            problem = f"a {entry.side} for a line that is {line.state}"
            BankEntry.objects.filter(pk=entry.pk).update(reason=problem)

    def _match(self, entry: BankEntry, outcome: str, moved: object) -> None:
        changes = {"outcome": outcome, "transfer": moved}
        BANK_ENTRY.move(entry, to=BankEntry.State.MATCHED, at=self.now, actor=self.actor, changes=changes)
        self.outcome[str(outcome)] += 1

    # Together

    def _known(self, keys: Iterable[str]) -> set[str]:
        return set(BankEntry.objects.filter(key__in=list(keys)).values_list("key", flat=True))

    def _load(self, end_to_end_ids: set[str]) -> None:
        found = BankLine.objects.filter(end_to_end_id__in=end_to_end_ids, file__scheme=self.scheme)
        parties = {line.payout.party for line in found.select_related("payout__party")}
        payees_lock(parties)
        rows = lock_rows(found)
        keep = BankLine.objects.select_related("file", "payout__party", "payout__destination")
        self.lines = {line.end_to_end_id: line for line in keep.filter(pk__in=[row.pk for row in rows])}

    def _store(self, kind: str, name: str, entries: Iterable[BankEntry], **facts: Any) -> BankMessage:
        """Entries first, then the message with what became of them: its row is written once (foreign keys wait for commit)."""
        message = BankMessage(
            kind=kind,
            scheme=self.scheme,
            name=name,
            data=self.data,
            sha256=sha256(self.data).digest(),
            imported_by=self.actor,
            created_at=self.now,
            **facts,
        )
        for entry in entries:
            entry.message, entry.created_at = message, self.now
            entry.save(force_insert=True)
            self._book(entry)
        message.outcome = {str(name): count for name, count in sorted(self.outcome.items()) if count}
        message.save(force_insert=True)
        return message
