"""Claims on deposits that named nobody: who paid proves it, and nobody learns anything about anybody else's money.

A claim names a transaction. Whether it waits in suspense, is somebody's, or does not exist: until the proof is complete all of
them are answered alike. The sending wallet's signature decides at once; what came from an exchange is decided by two of the
staff, a week after it was asked for.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.models import Party, User
from accounts.services import notification_send
from billing.chain.addresses import PROBLEM_TEXTS, DestinationRefused, address_check
from billing.chain.wallets import signature_is_valid, transaction_signature
from billing.models import Account, Deposit, DepositClaim, Transfer
from billing.models.claim import RIVALS_WAIT
from billing.services.audit import audit_record
from billing.services.bank.staff import reason_check, staff_check
from billing.services.challenges import challenge_text
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import transfer_post
from billing.services.network import network
from billing.states import DEPOSIT, DEPOSIT_CLAIM
from core.errors import Conflict, Denied, Invalid, NotFound
from core.locks import lock_name, lock_rows

log = structlog.get_logger(__name__)

CHALLENGE_SECONDS = 600
"""As for a payout wallet: long enough to open it and sign."""
CLAIMS_A_DAY = 20
"""Somebody who tries foreign transactions is stopped before it is worth it; nobody has lost twenty payments in a day."""
OPEN_MAX = 5
"""Claims by evidence are read by people."""
EVIDENCE_LENGTH = (20, 2_000)
"""Characters: an exchange, a withdrawal number and an amount do not fit into less; nobody reads more."""


def claim_wallet_open(*, party: Party, signature: str, address: str, now: datetime) -> DepositClaim:
    """A text for the wallet at ``address`` to sign within ten minutes: it says who claims which transaction.

    Raises Invalid (fields transaction, address), Conflict (too many today), NetworkUnavailable.
    """
    net, signature, address = network(), _transaction(signature), address.strip()
    try:
        address_check(address, ours=net.ours)
    except DestinationRefused as error:
        allowed = _("the address of the wallet that paid")
        raise Invalid.field(
            "address", found=f"{address[:64]}: {PROBLEM_TEXTS[error.problem]}", allowed=allowed
        ) from error
    expires_at = now + timedelta(seconds=CHALLENGE_SECONDS)
    text = challenge_text(
        asks="confirm that you sent a payment",
        purpose="deposit claim",
        lines={"Customer": str(party.pk), "Transaction": signature, "Address": address},
        genesis_hash=net.genesis_hash,
        expires_at=expires_at,
    )
    return _open(
        DepositClaim(
            party=party,
            kind=DepositClaim.Kind.WALLET,
            signature=signature,
            address=address,
            text=text,
            expires_at=expires_at,
            created_at=now,
        )
    )


def claim_wallet_prove(*, party: Party, claim_id: UUID, proof: str, now: datetime) -> Deposit:
    """The wallet's signature of the claim's text (base58). Right: the deposit is on the party's balance when this returns.

    The text is used up by the first answer. Raises NotFound, Invalid (field proof), Conflict (used up or expired; or no deposit
    of this transaction from this wallet waits for somebody: the same words whatever the reason).
    """
    claim = _own(party, claim_id)
    consumed = DepositClaim.objects.filter(
        pk=claim.pk, state=DepositClaim.State.OPEN, consumed_at__isnull=True, expires_at__gt=now
    ).update(consumed_at=now)
    if consumed != 1:
        raise Conflict(_("There is no open text for this payment: ask for a new one and sign it."))
    claim.consumed_at = now
    if not signature_is_valid(address=claim.address, message=claim.text.encode(), signature=proof.strip()):
        _decline(claim, now, reason="the signature is not the wallet's")
        allowed = _("this wallet's signature of exactly the text shown; ask for a new text")
        raise Invalid.field("proof", found=f"{proof.strip()[:16]}…", allowed=allowed)
    deposit = Deposit.objects.filter(
        signature=claim.signature, sender=claim.address, state=Deposit.State.SUSPENSE
    ).first()
    try:
        if deposit is None:
            raise _Gone
        return _credit(claim, deposit, now, actor=f"party:{party.pk}")
    except _Gone:
        _decline(claim, now, reason="no deposit of this transaction and wallet waits")
        raise Conflict(
            _(
                "No payment of this transaction from this wallet waits for its owner. A payment is final after some seconds;"
                " one that is on your balance needs no claim."
            )
        ) from None


def claim_evidence_open(*, party: Party, signature: str, evidence: str, now: datetime) -> DepositClaim:
    """Say in words why a payment is one's own (an exchange's withdrawal number and so on). People decide, in a week.

    The same transaction again gives the earlier claim. Raises Invalid (fields transaction, evidence), Conflict (too many).
    """
    signature, evidence = _transaction(signature), evidence.strip()
    low, high = EVIDENCE_LENGTH
    if not low <= len(evidence) <= high:
        allowed = _("%(low)d to %(high)d characters") % {"low": low, "high": high}
        raise Invalid.field("evidence", found=_("%(count)d characters") % {"count": len(evidence)}, allowed=allowed)
    kind = DepositClaim.Kind.EVIDENCE
    claim = DepositClaim(party=party, kind=kind, signature=signature, evidence=evidence, created_at=now)
    return _open(claim)


def claim_propose(*, claim: DepositClaim, reason: str, actor: User, now: datetime) -> DepositClaim:
    """One person's "this is theirs". Nothing moves until somebody else confirms it, a week after the claim at the earliest.

    Raises Denied, Invalid (reason), Conflict (closed, proposed already, or no deposit in suspense is of this transaction).
    """
    staff_check(actor, "change_depositclaim", payees=[claim.party])
    reason = reason_check(reason)
    with transaction.atomic():
        row = _for_staff(claim)
        if row.proposed_by_id is not None:
            raise Conflict("It is proposed already; somebody else has to confirm it.")
        _suspended(row)
        DepositClaim.objects.filter(pk=row.pk).update(proposed_by=actor, proposed_at=now, reason=reason)
        _audit("claim_propose", row, actor, now, proposed=True, reason=reason)
    log.info("claim_proposed", claim=str(row.pk), actor=str(actor.pk))
    row.refresh_from_db()
    return row


def claim_confirm(*, claim: DepositClaim, actor: User, now: datetime) -> Deposit:
    """A second person's yes: the deposit is credited to the claimant, and whoever else claimed it is declined.

    Raises Denied (no right, the proposer, or the claimant), Conflict (closed, not proposed, the week is not over, or the
    deposit is somebody's by now).
    """
    staff_check(actor, "change_depositclaim", payees=[claim.party])
    try:
        with transaction.atomic():
            row = _for_staff(claim)
            if row.proposed_by_id is None:
                raise Conflict("Nobody has proposed it yet.")
            if row.proposed_by_id == actor.pk:
                raise Denied("You have proposed this; somebody else has to confirm it.")
            if now < row.created_at + RIVALS_WAIT:
                raise Conflict(f"Others may claim it until {row.created_at + RIVALS_WAIT:%Y-%m-%d %H:%M} UTC.")
            _audit("claim_confirm", row, actor, now, state="credited", reason=row.reason)
            return _credit(row, _suspended(row), now, actor=actor)
    except _Gone:
        raise Conflict("The deposit is somebody's by now.") from None


def claim_decline(*, claim: DepositClaim, reason: str, actor: User, now: datetime) -> DepositClaim:
    """One person's no is enough: nothing moves, and the claimant may claim again with better evidence.

    Raises Denied, Invalid (reason), Conflict (closed).
    """
    staff_check(actor, "change_depositclaim", payees=[claim.party])
    reason = reason_check(reason)
    with transaction.atomic():
        row = _for_staff(claim)
        _audit("claim_decline", row, actor, now, state="declined", reason=reason)
        _decline(row, now, reason=reason, actor=actor)
    return row


def _audit(verb: str, claim: DepositClaim, actor: User, now: datetime, *, reason: str, **after: object) -> None:
    """Before it is carried out: the claim is still what it was."""
    before = {"state": claim.state, "proposed": claim.proposed_by_id is not None}
    after = {"transaction": claim.signature, **after}
    audit_record(
        verb=verb, subject=claim, actor=actor, before=before, after=after, reason=reason, party=claim.party, now=now
    )


class _Gone(Exception):
    """The deposit is no longer in suspense."""


def _transaction(signature: str) -> str:
    """A transaction's signature, in its one form. Raises Invalid (field transaction)."""
    try:
        return transaction_signature(signature)
    except ValueError as error:
        allowed = _("the signature of a Solana transaction, as the wallet or an explorer shows it (base58)")
        raise Invalid.field("transaction", found=signature.strip()[:100], allowed=allowed) from error


def _open(claim: DepositClaim) -> DepositClaim:
    with transaction.atomic():
        lock_name(f"billing:claims:{claim.party_id}")
        own = DepositClaim.objects.filter(party=claim.party)
        if own.filter(created_at__gt=claim.created_at - timedelta(days=1)).count() >= CLAIMS_A_DAY:
            raise Conflict(_("You have claimed many payments today; go on tomorrow, or write to us."))
        if claim.kind == DepositClaim.Kind.EVIDENCE:
            waiting = own.filter(kind=claim.kind, state=DepositClaim.State.OPEN)
            if (earlier := waiting.filter(signature=claim.signature).first()) is not None:
                return earlier
            if waiting.count() >= OPEN_MAX:
                raise Conflict(_("Five of your claims are being looked at; wait until one of them is decided."))
        claim.save(force_insert=True)
    return claim


def _own(party: Party, claim_id: UUID) -> DepositClaim:
    found = DepositClaim.objects.filter(party=party, pk=claim_id, kind=DepositClaim.Kind.WALLET).first()
    if found is None:
        raise NotFound("There is no such claim.")
    return found


def _for_staff(claim: DepositClaim) -> DepositClaim:
    """The row, locked. Raises Conflict for one that people do not decide (any more)."""
    _lock(claim)
    (row,) = lock_rows(DepositClaim.objects.all(), [claim.pk])
    if row.kind != DepositClaim.Kind.EVIDENCE or row.state != DepositClaim.State.OPEN:
        raise Conflict(f"claim: it is {row.state} by {row.kind} and waits for nobody.")
    return row


def _lock(claim: DepositClaim) -> None:
    """Before any row: rival claims on one transaction are decided one after the other, never in a circle."""
    lock_name(f"billing:claims:{claim.signature}")


def _suspended(claim: DepositClaim) -> Deposit:
    found = Deposit.objects.filter(signature=claim.signature, state=Deposit.State.SUSPENSE).first()
    if found is None:
        raise Conflict("No deposit in suspense is of this transaction.")
    return found


def _credit(claim: DepositClaim, deposit: Deposit, now: datetime, *, actor: object) -> Deposit:
    """Suspense → the claimant, once, in one transaction with claim and deposit. Raises _Gone when somebody was faster."""
    with transaction.atomic():
        _lock(claim)
        (row,) = lock_rows(Deposit.objects.all(), [deposit.pk])
        if row.state != Deposit.State.SUSPENSE:
            raise _Gone
        try:
            with transaction.atomic():
                closing = {**_second(claim, actor), "deposit": row, "closed_at": now}
                DEPOSIT_CLAIM.move(claim, to="credited", at=now, actor=actor, changes=closing)
        except IntegrityError as error:
            raise _Gone from error
        suspense = account_open(kind=Account.Kind.SUSPENSE)
        customer = account_open(kind=Account.Kind.CUSTOMER, owner=claim.party)
        moved = transfer_post(
            source=f"deposit:{row.signature}:{row.account}:claimed",
            kind=Transfer.Kind.DEPOSIT_CLAIMED,
            legs=[(suspense.pk, -row.amount_micro), (customer.pk, row.amount_micro)],
            effective_at=now,
            now=now,
        )
        changes = {"party": claim.party, "claim_transfer": moved}
        DEPOSIT.move(row, to="credited", at=now, actor=actor, reason=f"claim {claim.pk}", changes=changes)
        context = {"amount_micro": row.amount_micro, "signature": row.signature}
        notification_send(kind="deposit_credited", context=context, party=claim.party, url="/billing/", now=now)
        rivals = DepositClaim.objects.filter(
            signature=row.signature, kind=DepositClaim.Kind.EVIDENCE, state=DepositClaim.State.OPEN
        )
        for rival in lock_rows(rivals):
            _decline(rival, now, reason="the deposit was credited to somebody else", actor=actor)
    log.warning("deposit_claimed", claim=str(claim.pk), deposit=str(row.pk), amount_micro=row.amount_micro)
    return row


def _second(claim: DepositClaim, actor: object) -> dict[str, object]:
    return {"confirmed_by": actor} if claim.kind == DepositClaim.Kind.EVIDENCE else {}


def _decline(claim: DepositClaim, now: datetime, *, reason: str, actor: object | None = None) -> None:
    """The reason is for staff. People who waited for people are told that it was declined, in the same words for all."""
    with transaction.atomic():
        DEPOSIT_CLAIM.move(claim, to="declined", at=now, actor=actor, reason=reason, changes={"closed_at": now})
        if claim.kind == DepositClaim.Kind.EVIDENCE:
            context = {"signature": claim.signature}
            notification_send(
                kind="claim_declined", context=context, party=claim.party, url="/billing/claims/", now=now
            )
