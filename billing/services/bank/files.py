"""Payment files: made from released payouts, kept before anybody can fetch them, fetched as often as one likes.

Whatever is in a file may be paid. So its lines hold their payouts until the bank has said what became of them, and a payout
gets into a second file only when the first one's line is rejected or proven absent.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction

from accounts.models import User
from billing.models import BankFile, BankLine, Disclosure, Payout, Rail
from billing.rails import RAILS
from billing.rails.base import FileRefused, Payment, PaymentOrder
from billing.selectors.integrity import drift_first
from billing.selectors.payouts import payouts_frozen
from billing.services.audit import audit_record
from billing.services.bank.account import our_account
from billing.services.bank.staff import staff_check
from billing.services.payouts.runs import SWITCH_LOCK
from billing.services.payouts.screening import payee_obstacle
from billing.states import PAYOUT
from core.errors import Conflict, Denied, Invalid, NotFound
from core.ids import uuid7
from core.locks import lock_name, lock_rows

log = structlog.get_logger(__name__)

LINES_MAX = 5_000
"""Banks take more; a file that a person can still look through does not need it."""
LINES_PER_PAYOUT_MAX = 99
WORKING = (Payout.Status.READY, Payout.Status.BLOCKED)


def bank_lock(scheme: str) -> str:
    """The advisory lock under which files are made and the bank's answers are taken in, one after the other."""
    return f"billing:bank:{scheme}"


def bank_file_make(*, scheme: str, actor: User, now: datetime) -> BankFile:
    """Put every released payout of a rail into a new file, once; those with an obstacle are blocked, with the reason.

    Raises Denied, BankUnavailable, Invalid (field scheme), Conflict (frozen, wrong books, or nothing to pay), FileRefused.
    Nothing has moved then, except that payouts with an obstacle say so.
    """
    staff_check(actor, "add_bankfile")
    if scheme not in RAILS:
        raise Invalid.field("scheme", found=scheme, allowed=", ".join(sorted(RAILS)))
    our_account(scheme)
    drift = drift_first()
    if drift is not None:
        raise Conflict(f"The books are wrong, nothing is paid: {drift}.")
    for payout in _waiting(scheme):
        _look_again(payout, now)
    try:
        with transaction.atomic():
            lock_name(bank_lock(scheme))
            lock_name(SWITCH_LOCK)
            frozen = payouts_frozen()
            if frozen is not None:
                raise Conflict(f"Payouts are frozen: {frozen.reason}.")
            return _make(scheme, actor, now)
    except IntegrityError as error:
        raise Conflict("Somebody else has just put one of these payouts into a file; look again.") from error


def bank_file_approve(*, file: BankFile, actor: User, now: datetime) -> BankFile:
    """A second person's yes; only then can it be fetched. Again by the same person: nothing changes.

    Raises Denied (no right, the maker, or one of the payees), Conflict (approved by somebody else).
    """
    payees = [line.payout.party for line in file.lines.select_related("payout__party")]
    staff_check(actor, "change_bankfile", payees=payees)
    with transaction.atomic():
        (row,) = lock_rows(BankFile.objects.all(), [file.pk])
        if row.approved_by_id == actor.pk:
            return row
        if row.approved_at is not None:
            raise Conflict("This file is approved already.")
        if row.made_by_id == actor.pk:
            raise Denied("You have made this file; somebody else has to approve it.")
        BankFile.objects.filter(pk=row.pk).update(approved_by=actor, approved_at=now)
        _audit("bank_file_approve", row, actor, now, approved=True)
    log.info("bank_file_approved", file=row.message_id, actor=str(actor.pk))
    row.refresh_from_db()
    return row


def bank_file_fetch(*, file_id: UUID, actor: User, now: datetime) -> BankFile:
    """The file with its bytes, always the same ones; who fetched it is written down.

    Raises Denied, NotFound, Conflict (not approved yet).
    """
    staff_check(actor, "view_bankfile")
    file = BankFile.objects.filter(pk=file_id).first()
    if file is None:
        raise NotFound("There is no such file.")
    if file.approved_at is None:
        raise Conflict("A second person has to approve this file before it can be fetched.")
    if sha256(bytes(file.data)).digest() != bytes(file.sha256):
        raise AssertionError(f"the bytes of {file.message_id} are not those that were written")
    Disclosure.objects.create(what=Disclosure.What.FILE, subject_id=file.pk, actor=actor, at=now)
    log.info("bank_file_fetched", file=file.message_id, actor=str(actor.pk))
    return file


def _waiting(scheme: str) -> list[Payout]:
    found = Payout.objects.filter(rail=Rail.BANK, status__in=WORKING, destination__scheme=scheme)
    return list(found.select_related("party", "destination").order_by("pk")[:LINES_MAX])


def _look_again(payout: Payout, now: datetime) -> None:
    """Block it or make it ready, as its payee is now; each for itself, so that a file that fails keeps what was found."""
    obstacle = payee_obstacle(payout, now)
    if obstacle is None and payout.status == Payout.Status.BLOCKED:
        PAYOUT.move(payout, to=Payout.Status.READY, at=now, changes={"note": ""})
    elif obstacle is not None and payout.status == Payout.Status.READY:
        PAYOUT.move(payout, to=Payout.Status.BLOCKED, reason=obstacle, at=now, changes={"note": obstacle[:200]})
    elif obstacle is not None:
        Payout.objects.filter(pk=payout.pk, status=Payout.Status.BLOCKED).update(note=obstacle[:200])


def _make(scheme: str, actor: User, now: datetime) -> BankFile:
    ready = [payout for payout in _waiting(scheme) if payout.status == Payout.Status.READY]
    lock_rows(Payout.objects.all(), [payout.pk for payout in ready])
    ready = [payout for payout in _waiting(scheme) if payout.status == Payout.Status.READY]
    if not ready:
        raise Conflict("No released bank payout waits for a file.")
    if any(actor.memberships.filter(party=payout.party).exists() for payout in ready):
        raise Denied("Nobody makes a file that pays themselves.")
    rail, payer, key = RAILS[scheme], our_account(scheme), uuid7()
    numbers = [payout.bank_lines.count() + 1 for payout in ready]
    if max(numbers) > LINES_PER_PAYOUT_MAX:
        raise FileRefused.because("a payout's hundredth line", f"{LINES_PER_PAYOUT_MAX} lines per payout")
    order = PaymentOrder(
        message_id=f"GPX{key.hex}",
        created_at=now,
        execution_date=rail.business_day(now.date()),
        payer=payer,
        payments=[_payment(payout, n) for payout, n in zip(ready, numbers, strict=True)],
    )
    data = rail.file_write(order)
    file = BankFile.objects.create(
        id=key,
        scheme=scheme,
        message_id=order.message_id,
        account=payer.account,
        currency=rail.currency,
        execution_date=order.execution_date,
        line_count=len(ready),
        control_cents=sum(payment.amount_cents for payment in order.payments),
        data=data,
        sha256=sha256(data).digest(),
        made_by=actor,
        created_at=now,
    )
    for payout, n, payment in zip(ready, numbers, order.payments, strict=True):
        BankLine.objects.create(
            file=file,
            payout=payout,
            n=n,
            end_to_end_id=payment.end_to_end_id,
            amount_cents=payment.amount_cents,
            created_at=now,
        )
        PAYOUT.move(payout, to=Payout.Status.SUBMITTED, actor=actor, reason=f"in {file.message_id}", at=now)
    _audit("bank_file_make", file, actor, now, approved=False)
    log.info("bank_file_made", file=file.message_id, lines=len(ready), cents=file.control_cents, actor=str(actor.pk))
    return file


def _audit(verb: str, file: BankFile, actor: User, now: datetime, *, approved: bool) -> None:
    before = {"approved": False} if approved else {}
    after = {"lines": file.line_count, "cents": file.control_cents, "currency": file.currency, "approved": approved}
    audit_record(verb=verb, subject=file, actor=actor, before=before, after=after, now=now)


def _payment(payout: Payout, n: int) -> Payment:
    if payout.amount_cents is None:
        raise AssertionError(f"bank payout {payout.pk} has no amount in cents")
    return Payment(
        # The payout's own id is the end-to-end id; later lines of it say which one they are.
        end_to_end_id=payout.pk.hex if n == 1 else f"{payout.pk.hex}-{n}",
        holder=payout.destination.holder,
        account=payout.address,
        amount_cents=payout.amount_cents,
        text=f"GPUnex payout {payout.run.kind} {payout.run.period_start:%Y-%m-%d}",
    )
