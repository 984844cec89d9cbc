"""Corrections by hand: one person proposes, another one's yes posts the transfer, once. Nothing moves by one person."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import Sum
from django.db.models.functions import Abs

from accounts.models import Party, User
from billing.models import Account, Adjustment, Transfer
from billing.models.adjustment import ADJUSTMENT_MAX_MICRO
from billing.services.audit import audit_record
from billing.services.bank.staff import reason_check, staff_check
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import transfer_post
from billing.states import ADJUSTMENT
from core.errors import Conflict, Denied, Invalid
from core.locks import lock_name, lock_rows
from core.money import MICRO, format_usdc

log = structlog.get_logger(__name__)

State = Adjustment.State
DAY = timedelta(hours=24)
DAY_MAX_MICRO = 5_000 * MICRO
"""What all adjustments of any 24 hours may move, either way: two stolen sessions do not empty the house in a night."""
LOCK = "billing:adjustments"
"""Held while one is confirmed: two at once are each measured against the day's sum with the other in it."""
KINDS = ", ".join(Adjustment.ACCOUNTS)


def adjustment_propose(
    *, party: Party, kind: str, amount_micro: int, reason: str, evidence: str, actor: User, now: datetime
) -> Adjustment:
    """Say what a party's balance is wrong by, why, and where the proof lies. Nothing moves until somebody else confirms it.

    ``kind``: customer or provider_payable. ``amount_micro``: positive gives, negative takes.
    Raises Denied (no right, or a member of the party), Invalid (kind, amount, reason, evidence).
    """
    staff_check(actor, "add_adjustment", payees=[party])
    if kind not in Adjustment.ACCOUNTS:
        raise Invalid.field("kind", found=kind, allowed=KINDS)
    if not 0 < abs(amount_micro) <= ADJUSTMENT_MAX_MICRO:
        most = format_usdc(ADJUSTMENT_MAX_MICRO)
        raise Invalid.field("amount", found=format_usdc(amount_micro), allowed=f"-{most} to {most} USDC, not 0")
    reason, evidence = reason_check(reason), " ".join(evidence.split())
    if not evidence:
        raise Invalid.field("evidence", found=evidence, allowed="where the proof lies: a ticket, a transaction, a job")
    account = account_open(kind=kind, owner=party)
    with transaction.atomic():
        proposed = Adjustment.objects.create(
            account=account,
            amount_micro=amount_micro,
            reason=reason,
            evidence=evidence[:500],
            proposed_by=actor,
            created_at=now,
        )
        _audit("adjustment_propose", proposed, {}, actor, reason, now)
    log.warning("adjustment_proposed", adjustment=str(proposed.pk), amount_micro=amount_micro, actor=str(actor.pk))
    return proposed


def adjustment_confirm(*, adjustment: Adjustment, actor: User, now: datetime) -> Adjustment:
    """A second person's yes posts the transfer, in the same transaction. Again by the same person: nothing changes.

    Taking from a customer respects the floor, so that no running job loses its hold; taking from a provider may go below
    zero, which later earnings pay back (docs/money.md, Adjustments).
    Raises Denied (no right, the proposer, or a member of the party), Conflict (decided by somebody else, or the day's limit),
    InsufficientFunds. Nothing has moved then, and it still waits.
    """
    staff_check(actor, "change_adjustment", payees=_payees(adjustment))
    with transaction.atomic():
        lock_name(LOCK)
        row = _locked(adjustment)
        if row.state == State.POSTED and row.decided_by_id == actor.pk:
            return row
        _check_open(row)
        if row.proposed_by_id == actor.pk:
            raise Denied("You have proposed this; somebody else has to confirm it.")
        _check_day(row, now)
        posted = transfer_post(
            source=f"adjustment:{row.pk}",
            kind=Transfer.Kind.ADJUSTMENT,
            legs=[
                (row.account_id, row.amount_micro),
                (account_open(kind=Account.Kind.ADJUSTMENTS).pk, -row.amount_micro),
            ],
            effective_at=now,
            now=now,
            floored=frozenset({row.account_id} if row.account.kind == Account.Kind.CUSTOMER else ()),
        )
        changes = {"decided_by": actor, "decided_at": now, "transfer": posted}
        ADJUSTMENT.move(row, to=State.POSTED, at=now, actor=actor, reason=row.reason, changes=changes)
        balance = Account.objects.get(pk=row.account_id).balance
        before = {"state": "proposed", "balance_micro": balance - row.amount_micro}
        _audit("adjustment_confirm", row, before, actor, row.reason, now, balance)
    log.warning("adjustment_posted", adjustment=str(row.pk), amount_micro=row.amount_micro, actor=str(actor.pk))
    return row


def adjustment_refuse(*, adjustment: Adjustment, reason: str, actor: User, now: datetime) -> Adjustment:
    """No, and why: it stays to be read. Whoever proposed it may take it back in the same way.

    Raises Denied (no right, or a member of the party), Invalid (reason), Conflict (it is decided already).
    """
    staff_check(actor, "change_adjustment", payees=_payees(adjustment))
    reason = reason_check(reason)
    with transaction.atomic():
        row = _locked(adjustment)
        _check_open(row)
        changes = {"decided_by": actor, "decided_at": now, "refusal": reason}
        ADJUSTMENT.move(row, to=State.REFUSED, at=now, actor=actor, reason=reason, changes=changes)
        _audit("adjustment_refuse", row, {"state": "proposed"}, actor, reason, now)
    log.info("adjustment_refused", adjustment=str(row.pk), actor=str(actor.pk))
    return row


def _payees(adjustment: Adjustment) -> list[Party]:
    return [party for party in [adjustment.account.owner] if party is not None]


def _locked(adjustment: Adjustment) -> Adjustment:
    (row,) = lock_rows(Adjustment.objects.select_related("account__owner"), [adjustment.pk])
    return row


def _check_open(row: Adjustment) -> None:
    if row.state != State.PROPOSED:
        raise Conflict(f"adjustment: it is {row.state} and waits for nobody.")


def _check_day(row: Adjustment, now: datetime) -> None:
    day = Adjustment.objects.filter(state=State.POSTED, decided_at__gt=now - DAY)
    moved = int(day.aggregate(total=Sum(Abs("amount_micro")))["total"] or 0)
    if moved + abs(row.amount_micro) > DAY_MAX_MICRO:
        found, most = format_usdc(moved + abs(row.amount_micro)), format_usdc(DAY_MAX_MICRO)
        raise Conflict(f"amount: with this one {found} USDC would be adjusted within 24 hours; allowed: {most}.")


def _audit(
    verb: str,
    row: Adjustment,
    before: dict[str, object],
    actor: User,
    reason: str,
    now: datetime,
    balance: int | None = None,
) -> None:
    after = {"state": row.state, "account": row.account.kind, "amount_micro": row.amount_micro}
    if verb == "adjustment_propose":
        after["evidence"] = row.evidence
    if balance is not None:
        after["balance_micro"] = balance
    audit_record(
        verb=verb, subject=row, actor=actor, before=before, after=after, reason=reason, party=row.account.owner, now=now
    )
