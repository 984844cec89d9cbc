"""Between reserved and payable: the pre-flight of a run, release by two people (or the demo's policy), and cancelling."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from uuid import UUID

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction

from accounts.models import User
from accounts.services import notification_send
from billing.chain.errors import RpcError
from billing.chain.instructions import SIGNATURE_FEE_LAMPORTS, TOKEN_ACCOUNT_RENT_LAMPORTS
from billing.models import Payout, PayoutApproval, PayoutRun, Rail, Transfer
from billing.selectors.integrity import drift_first
from billing.selectors.payouts import destination_shown, in_flight_total, payouts_frozen
from billing.selectors.policies import policy_value
from billing.services.audit import Facts, audit_record
from billing.services.ledger.transfers import legs_of, transfer_post
from billing.services.network import NetworkUnavailable, network
from billing.services.payouts.limits import approver_check, release_limit_check
from billing.services.payouts.runs import run_pause
from billing.states import PAYOUT, PAYOUT_RUN
from core import jobs
from core.errors import Conflict
from core.locks import lock_rows
from core.money import format_usdc

log = structlog.get_logger(__name__)

APPROVALS_NEEDED = 2
RELEASED_AT_ONCE = 200
"""By the demo's policy: a page at a time, so that a long run takes no more memory than a short one."""


def payout_run_start(*, run_id: UUID, now: datetime) -> PayoutRun:
    """Look whether the hot wallet can pay the run; then release it (demo) or leave it to two people.

    A run that cannot be paid is paused and says why; the next call tries again. Only the money worker calls this.
    """
    run = PayoutRun.objects.get(pk=run_id)
    if run.planned_at is not None and run.status == PayoutRun.Status.RELEASED:
        _release_in_demo(run, now)  # bank payouts that were planned later
    if run.planned_at is None or run.status not in (PayoutRun.Status.PLANNED, PayoutRun.Status.PAUSED):
        return run
    obstacle = _obstacle(run, now)
    if obstacle is not None:
        run_pause(run, reason=obstacle, now=now)
        return run
    if run.status == PayoutRun.Status.PAUSED:
        PAYOUT_RUN.move(run, to=PayoutRun.Status.PLANNED, at=now, changes={"pause_reason": ""})
    if _release_in_demo(run, now):
        PAYOUT_RUN.move(run, to=PayoutRun.Status.RELEASED, at=now, actor="demo")
    return run


def _release_in_demo(run: PayoutRun, now: datetime) -> bool:
    if not (settings.DEMO and policy_value("automatic_release", now)):
        return False
    waiting = run.payouts.filter(status=Payout.Status.AWAITING_RELEASE).order_by("pk")
    while page := list(waiting[:RELEASED_AT_ONCE]):  # a page that is released waits no longer: the next one follows
        for payout in page:
            _release(payout, now, actor="demo")
    return True


def payout_binding(payout: Payout) -> bytes:
    """What an approval says yes to: this payout, this address, this amount, by a bank also holder, cents and rate (SHA-256)."""
    what = [payout.pk, payout.rail, payout.address, payout.asset, payout.amount_micro]
    if payout.rail == Rail.BANK:
        what += [payout.destination.holder, payout.currency, payout.amount_cents, payout.eur_rate_id]
    return sha256("|".join(str(part) for part in what).encode()).digest()


def payout_approve(*, payout: Payout, approver: User, now: datetime) -> Payout:
    """One person's yes. The second one, of somebody else, releases the payout.

    Raises Denied (``approver_check``), Conflict (it does not wait for a release, its run is paused or not planned to its end,
    this person said yes before, or the day's limit is reached).
    """
    approver_check(payout, approver, now)
    with transaction.atomic():
        (payout,) = lock_rows(Payout.objects.all(), [payout.pk])
        if payout.status != Payout.Status.AWAITING_RELEASE:
            raise Conflict(f"payout: it is {payout.status} and waits for no release.")
        if payout.run.status not in (PayoutRun.Status.PLANNED, PayoutRun.Status.RELEASED):
            # Two people do not stand in for the pre-flight: wrong books or an empty wallet stop them, too.
            why = payout.run.pause_reason or "it is not planned to its end"
            raise Conflict(f"run: it is {payout.run.status} and releases nothing: {why}.")
        binding = payout_binding(payout)
        if PayoutApproval.objects.filter(payout=payout, approver=approver).exists():
            raise Conflict("You have approved this payout already; somebody else has to.")
        PayoutApproval.objects.create(payout=payout, approver=approver, binding=binding, created_at=now)
        agreed = PayoutApproval.objects.filter(payout=payout, binding=binding).values("approver").distinct().count()
        payout_audit(
            "payout_approve", payout, approver, now, before={"approvals": agreed - 1}, after={"approvals": agreed}
        )
        if agreed >= APPROVALS_NEEDED:
            release_limit_check(payout, now)
            _release(payout, now, actor=approver)
            _release_run(payout.run, now)
    return payout


def payout_cancel(*, payout: Payout, reason: str, now: datetime, actor: object | None = None) -> Payout:
    """Give a payout's money back to where it came from: all that its reserve moved, the other way round (also a fee).

    Refused, by the database too, while a signed transaction or the bank may pay it.

    Raises MoveNotAllowed, StaleState, Conflict.
    """
    kind = Transfer.Kind.WITHDRAWAL_CANCELLED if payout.is_withdrawal else Transfer.Kind.PAYOUT_CANCELLED
    PAYOUT.check(old=payout.status, new=Payout.Status.CANCELLED)
    try:
        with transaction.atomic():
            back = transfer_post(
                source=f"payout:{payout.pk}:cancel",
                kind=kind,
                legs=[(account, -amount) for account, amount in legs_of(payout.reserve_transfer)],
                effective_at=now,
                now=now,
            )
            changes = {"closing_transfer": back}
            before, after = {"status": payout.status}, {"status": Payout.Status.CANCELLED}
            PAYOUT.move(payout, to=Payout.Status.CANCELLED, actor=actor, reason=reason, at=now, changes=changes)
            payout_audit("payout_cancel", payout, actor, now, before=before, after=after, reason=reason)
            if payout.is_withdrawal:
                context = {"amount_micro": payout.amount_micro + payout.fee_micro}
                url = "/billing/withdrawals/"
                notification_send(kind="withdrawal_cancelled", context=context, party=payout.party, url=url, now=now)
    except IntegrityError as error:
        raise Conflict(
            "A signed transaction or a bank line of this payout may still pay it; it cannot be cancelled now."
        ) from error
    return payout


def payout_audit(
    verb: str, payout: Payout, actor: object | None, now: datetime, *, before: Facts, after: Facts, reason: str = ""
) -> None:
    """The audit trail's line about one payout."""
    after = {"amount_micro": payout.amount_micro, "to": destination_shown(payout), **after}
    audit_record(
        verb=verb, subject=payout, actor=actor, before=before, after=after, reason=reason, party=payout.party, now=now
    )


def _obstacle(run: PayoutRun, now: datetime) -> str | None:
    """Why the run cannot be paid now, or None."""
    frozen = payouts_frozen()
    if frozen is not None:
        return f"payouts are frozen: {frozen.reason}"
    drift = drift_first()
    if drift is not None:
        return f"the books are wrong: {drift}"
    if not run.payouts.filter(status__in=Payout.OPEN, rail=Rail.USDC).exists():
        return None  # the bank's money is the bank's to refuse: it answers line by line
    try:
        return _short_of(run, now)
    except (NetworkUnavailable, RpcError) as error:
        return f"the chain gives no answer: {error}"


def _short_of(run: PayoutRun, now: datetime) -> str | None:
    net = network()
    usdc = net.primary.token_account_balance(net.hot_account, commitment="finalized")
    has, needs = 0 if usdc is None else usdc.amount, in_flight_total()
    if has < needs:
        return f"the hot wallet holds {format_usdc(has)} USDC, {format_usdc(needs)} are on their way"
    count = run.payouts.filter(status__in=Payout.OPEN, rail=Rail.USDC).count()
    lamports = net.primary.balance(net.hot_wallet, commitment="finalized")
    each = SIGNATURE_FEE_LAMPORTS + TOKEN_ACCOUNT_RENT_LAMPORTS
    least = count * each + policy_value("sol_reserve_lamports", now)
    return None if lamports >= least else f"the hot wallet holds {lamports} lamports, {least} are needed for fees"


def _release(payout: Payout, now: datetime, *, actor: object) -> None:
    with transaction.atomic():
        PAYOUT.move(
            payout, to=Payout.Status.READY, actor=actor, at=now, changes={"next_look_at": now, "released_at": now}
        )
        if payout.rail == Rail.USDC:  # a bank payout goes into the next file
            jobs.enqueue("billing.payout_submit", payout_id=str(payout.pk))


def _release_run(run: PayoutRun, now: datetime) -> None:
    waiting = run.payouts.filter(status=Payout.Status.AWAITING_RELEASE).exists()
    if not waiting and run.status in (PayoutRun.Status.PLANNED, PayoutRun.Status.PAUSED):
        PAYOUT_RUN.move(run, to=PayoutRun.Status.RELEASED, at=now)
