"""What a statement cannot say by itself: two people say it, with a reason, about one line or one entry in suspense."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.db import IntegrityError, transaction

from accounts.models import Party, User
from billing.models import Account, BankDecision, BankEntry, BankLine, BankMessage
from billing.rails import RAILS
from billing.services.audit import audit_record
from billing.services.bank.booking import entry_post, line_absent, line_return, line_settle
from billing.services.bank.files import bank_lock
from billing.services.bank.messages import payees_lock
from billing.services.bank.staff import reason_check, staff_check
from billing.states import BANK_ENTRY, BANK_LINE_LIVE
from core.errors import Conflict, Denied, Invalid
from core.locks import lock_name, lock_rows

log = structlog.get_logger(__name__)

Said = BankDecision.Verdict
ABOUT_LINES = (Said.ABSENT,)
ABOUT_BOTH = (Said.SETTLED, Said.RETURNED)


def bank_decision_propose(
    *,
    verdict: str,
    reason: str,
    actor: User,
    now: datetime,
    line: BankLine | None = None,
    entry: BankEntry | None = None,
) -> BankDecision:
    """Say what a line or an entry in suspense is; nothing moves until somebody else confirms it.

    absent (line): the bank never had it. settled, returned (entry and line): this movement is that line's. capital (entry): the
    operator's own money. charge (entry): the bank's costs. noted (an entry that moved nothing): seen.
    Raises Denied, Invalid (verdict, reason, line, entry), Conflict (it is decided already, or not proven).
    """
    staff_check(actor, "add_bankdecision", payees=_payees(line))
    reason = reason_check(reason)
    if verdict not in Said.values:
        raise Invalid.field("verdict", found=verdict, allowed=", ".join(Said.values))
    if (line is None) is (verdict in (*ABOUT_LINES, *ABOUT_BOTH)):
        allowed = "no line" if line else "the line that it is about"
        raise Invalid.field("line", found=str(line or ""), allowed=allowed)
    if (entry is None) is (verdict not in ABOUT_LINES):
        allowed = "no entry" if entry else "an entry in suspense"
        raise Invalid.field("entry", found=str(entry or ""), allowed=allowed)
    decision = BankDecision(verdict=verdict, line=line, entry=entry, reason=reason, proposed_by=actor, created_at=now)
    _check(decision, now)
    with transaction.atomic():
        decision.save(force_insert=True)
        _audit("bank_decision_propose", decision, actor, now)
    log.info("bank_decision_proposed", decision=str(decision.pk), verdict=verdict, actor=str(actor.pk))
    return decision


def bank_decision_confirm(*, decision: BankDecision, actor: User, now: datetime) -> BankDecision:
    """A second person's yes, and what follows from it, in one transaction. Again by the same person: nothing changes.

    Raises Denied (no right, the proposer, or the payee), Invalid, Conflict (decided otherwise meanwhile, or not proven).
    """
    staff_check(actor, "change_bankdecision", payees=_payees(decision.line))
    try:
        with transaction.atomic():
            lock_name(bank_lock(_scheme(decision)))
            if decision.line is not None:
                payees_lock([decision.line.payout.party])
            (row,) = lock_rows(BankDecision.objects.all(), [decision.pk])
            if row.confirmed_by_id == actor.pk:
                return row
            if row.confirmed_at is not None:
                raise Conflict("This is confirmed already.")
            if row.proposed_by_id == actor.pk:
                raise Denied("You have proposed this; somebody else has to confirm it.")
            _check(row, now)
            BankDecision.objects.filter(pk=row.pk).update(confirmed_by=actor, confirmed_at=now)
            _audit("bank_decision_confirm", row, actor, now)
            _act(row, actor, now)
    except IntegrityError as error:
        raise Conflict("This line or entry has been decided meanwhile.") from error
    log.warning("bank_decision_confirmed", decision=str(row.pk), verdict=row.verdict, actor=str(actor.pk))
    row.refresh_from_db()
    return row


def _audit(verb: str, decision: BankDecision, actor: User, now: datetime) -> None:
    """Before it is carried out: line and entry are still what they were."""
    line, entry = decision.line, decision.entry
    before = {"line": line and line.state, "entry": entry and entry.state}
    after = {"verdict": decision.verdict, "line": line and line.end_to_end_id, "entry": entry and str(entry.pk)}
    party = line.payout.party if line else None
    audit_record(
        verb=verb,
        subject=decision,
        actor=actor,
        before=before,
        after=after,
        reason=decision.reason,
        party=party,
        now=now,
    )


def _payees(line: BankLine | None) -> list[Party]:
    return [] if line is None else [line.payout.party]


def _scheme(decision: BankDecision) -> str:
    if decision.line is not None:
        return decision.line.file.scheme
    if decision.entry is None:
        raise AssertionError("a decision is about a line or an entry")
    return decision.entry.message.scheme


def _check(decision: BankDecision, now: datetime) -> None:
    """Whether what is said can be true of the rows as they are now."""
    line = decision.line and BankLine.objects.select_related("file").get(pk=decision.line.pk)
    entry = decision.entry and BankEntry.objects.get(pk=decision.entry.pk)
    if entry is not None and entry.state != BankEntry.State.SUSPENSE:
        raise Conflict(f"entry: it is {entry.state} and waits for nothing.")
    if decision.verdict == Said.ABSENT and line is not None:
        _check_absent(line, now)
    elif decision.verdict in ABOUT_BOTH and line is not None and entry is not None:
        _check_pair(decision.verdict, line, entry)
    elif entry is not None and (decision.verdict == Said.NOTED) is not (entry.side == BankEntry.Side.REPORT):
        allowed = "noted" if entry.side == BankEntry.Side.REPORT else "what the money was: it has moved"
        raise Invalid.field("verdict", found=decision.verdict, allowed=allowed)
    elif entry is not None and decision.verdict == Said.CHARGE and entry.side != BankEntry.Side.DEBIT:
        raise Invalid.field("verdict", found=decision.verdict, allowed="capital: a charge is a debit")


def _check_absent(line: BankLine, now: datetime) -> None:
    if line.state not in BANK_LINE_LIVE:
        raise Conflict(f"line: it is {line.state}.")
    if line.file.approved_at is None:
        return  # nobody could fetch the file, so no bank has it
    rail = RAILS[line.file.scheme]
    proven_on = rail.business_day(line.file.execution_date + timedelta(days=1))
    covered = BankMessage.objects.filter(
        kind=BankMessage.Kind.STATEMENT, scheme=line.file.scheme, closing_on__gte=proven_on
    )
    if not covered.exists():
        raise Conflict(f"line: not proven: import the statements up to {proven_on:%Y-%m-%d} first.")
    waiting = BankEntry.objects.filter(line=line, state=BankEntry.State.SUSPENSE, side=BankEntry.Side.DEBIT)
    if waiting.exists():
        raise Conflict("line: a debit in suspense names it; decide about that first.")


def _check_pair(verdict: str, line: BankLine, entry: BankEntry) -> None:
    if entry.currency != line.file.currency:
        raise Invalid.field("entry", found=entry.currency, allowed=line.file.currency)
    if verdict == Said.SETTLED:
        if entry.side != BankEntry.Side.DEBIT or entry.amount_cents != line.amount_cents:
            raise Invalid.field("entry", found=str(entry), allowed=f"a debit of {line.amount_cents} cents")
        if line.state not in BANK_LINE_LIVE:
            raise Conflict(f"line: it is {line.state}.")
        return
    if entry.side != BankEntry.Side.CREDIT or not 0 < entry.amount_cents <= line.amount_cents:
        raise Invalid.field("entry", found=str(entry), allowed=f"a credit of at most {line.amount_cents} cents")
    if line.state != BankLine.State.SETTLED:
        raise Conflict(f"line: it is {line.state}: only what was paid can come back.")


def _act(decision: BankDecision, actor: User, now: datetime) -> None:
    line, entry, reason = decision.line, decision.entry, decision.reason
    if decision.verdict == Said.ABSENT and line is not None:
        line_absent(line, reason=reason, actor=actor, now=now)
        return
    if entry is None:
        raise AssertionError("every other verdict is about an entry")
    moved = None
    if decision.verdict == Said.SETTLED and line is not None:
        moved = line_settle(line, now=now, actor=actor)
    elif decision.verdict == Said.RETURNED and line is not None:
        moved = line_return(line, arrived_cents=entry.amount_cents, reason=reason, now=now, actor=actor)
    elif decision.verdict == Said.CAPITAL:
        moved = entry_post(entry, against=Account.Kind.CAPITAL, now=now)
    elif decision.verdict == Said.CHARGE:
        moved = entry_post(entry, against=Account.Kind.BANK_CHARGES, now=now)
    changes = {"outcome": decision.verdict, "transfer": moved, "line": line or entry.line, "reason": reason}
    BANK_ENTRY.move(entry, to=BankEntry.State.RESOLVED, at=now, actor=actor, reason=reason, changes=changes)
