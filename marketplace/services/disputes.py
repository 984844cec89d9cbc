"""Disputes: a customer says that an attempt should not have cost what it did, staff decide, money moves once.

Lock order: dispute, rental, then in billing: earning lines, accounts, holds.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Party, PartyMember, User
from accounts.services import notification_send
from billing.services import audit_record, earnings_freeze, earnings_thaw, usage_reverse
from core.errors import Conflict, Denied, Invalid, NotFound
from core.money import format_usdc
from marketplace.models import Attempt, Dispute, Rental
from marketplace.selectors.disputes import dispute_refusal
from marketplace.states import DISPUTE

DISPUTES_OPEN_MAX = 20
"""Of one customer at a time. Each freezes a provider's money: nobody is to freeze a fleet's week with a script."""
WORDS_MAX = 2000


def dispute_open(*, attempt: Attempt, customer: Party, kind: str, words: str, actor: User, now: datetime) -> Dispute:
    """Dispute an attempt's charge. What it earned is frozen until the decision; both sides are written to.

    Once per attempt: the same words again are the dispute that is there. Raises NotFound (not the customer's), Invalid (fields
    ``kind``, ``words``), Conflict (too early, too late, nothing charged, disputed before, too many open at once).
    """
    words = words.strip()
    if kind not in Dispute.Kind.values:
        raise Invalid.field("kind", found=kind[:40], allowed=", ".join(Dispute.Kind.values))
    if not 0 < len(words) <= WORDS_MAX:
        raise Invalid.field("words", found=f"{len(words)} characters", allowed=f"1 to {WORDS_MAX} characters")
    with transaction.atomic():
        rows = Rental.objects.select_for_update(of=("self",)).select_related("attempt__job", "provider__party")
        rental = rows.filter(attempt=attempt, customer=customer).first()
        if rental is None:
            raise NotFound("There is no such attempt.")
        earlier = Dispute.objects.filter(attempt=attempt).first()
        if earlier is not None:
            if (earlier.kind, earlier.words) == (kind, words):
                return earlier
            raise Conflict(_("This attempt has been disputed before; a charge is disputed once."))
        if refusal := dispute_refusal(attempt=rental.attempt, now=now):
            raise Conflict(refusal)
        if Dispute.objects.filter(customer=customer, status=Dispute.Status.OPEN).count() >= DISPUTES_OPEN_MAX:
            raise Conflict(
                _("%(count)d of your disputes are open; wait for a decision first.") % {"count": DISPUTES_OPEN_MAX}
            )
        dispute = Dispute.objects.create(
            attempt=rental.attempt,
            customer=customer,
            provider=rental.provider,
            kind=kind,
            words=words,
            disputed_micro=rental.charged_micro - rental.credited_micro,
            opened_by=actor,
            created_at=now,
        )
        earnings_freeze(source=dispute.source, provider=rental.provider.party, rental_id=rental.pk, now=now)
        _tell(dispute, "dispute_opened", customer=customer, now=now)
        _tell(dispute, "dispute_opened_provider", customer=None, now=now)
    return dispute


def dispute_decide(*, dispute: Dispute, refund_micro: int, reason: str, actor: User, now: datetime) -> Dispute:
    """Decide: give back all of it, a part, or nothing (0), with a reason that both sides read.

    Money moves in the same transaction, out of provider's and platform's part in proportion, also where the provider was paid
    already (a debt, which later earnings pay back). The same decision again changes nothing. Raises Invalid (fields
    ``refund``, ``reason``), Denied (whose own money it is), Conflict (decided otherwise before).
    """
    reason = reason.strip()
    if not reason:
        raise Invalid.field("reason", found="nothing", allowed="a reason that customer and provider will read")
    with transaction.atomic():
        rows = Dispute.objects.select_for_update(of=("self",))
        dispute = rows.select_related("attempt__job", "customer", "provider__party").get(pk=dispute.pk)
        if dispute.status != Dispute.Status.OPEN:
            if (dispute.refund_micro, dispute.reason) == (refund_micro, reason):
                return dispute
            raise Conflict(_("Somebody has decided this dispute already."))
        if not 0 <= refund_micro <= dispute.disputed_micro:
            allowed = f"0 to {format_usdc(dispute.disputed_micro, places=6)} USDC"
            raise Invalid.field("refund", found=format_usdc(refund_micro, places=6), allowed=allowed)
        if PartyMember.objects.filter(user=actor, party__in=[dispute.customer, dispute.provider.party]).exists():
            raise Denied(_("Whose own money it is does not decide about it."))
        if refund_micro:
            _give_back(dispute, refund_micro, now)
        earnings_thaw(source=dispute.source, now=now)
        changes = {
            "decided_at": now,
            "decided_by": actor,
            "reason": reason,
            "refund_micro": refund_micro,
        }
        DISPUTE.move(
            dispute, to="granted" if refund_micro else "refused", actor=actor, reason=reason, at=now, changes=changes
        )
        audit_record(
            verb="dispute_decide",
            subject=dispute,
            actor=actor,
            before={"status": Dispute.Status.OPEN, "disputed_micro": dispute.disputed_micro},
            after={"status": dispute.status, "refund_micro": refund_micro, "provider": dispute.provider.party.handle},
            reason=reason,
            party=dispute.customer,
            now=now,
        )
        _tell(dispute, "dispute_decided", customer=dispute.customer, now=now)
        _tell(dispute, "dispute_decided_provider", customer=None, now=now)
    return dispute


def _give_back(dispute: Dispute, refund_micro: int, now: datetime) -> None:
    rental = Rental.objects.select_for_update().get(attempt=dispute.attempt_id)
    charges = rental.charges.filter(amount_micro__gt=0).order_by("pk").values_list("source", flat=True)
    usage_reverse(source=dispute.source, of_sources=list(charges), amount_micro=refund_micro, now=now)
    Rental.objects.filter(pk=rental.pk).update(credited_micro=rental.credited_micro + refund_micro)


def _tell(dispute: Dispute, kind: str, *, customer: Party | None, now: datetime) -> None:
    """To the customer with the job's name, or to the provider, who learns nothing of whose job it was."""
    refund = dispute.refund_micro
    context = {
        "number": str(dispute.attempt_id)[:8],
        "about": Dispute.Kind(dispute.kind).label,
        "amount": format_usdc(dispute.disputed_micro, places=6),
        "refund": None if refund is None else format_usdc(refund, places=6),
        "granted": dispute.status == Dispute.Status.GRANTED,
        "reason": dispute.reason,
    }
    if customer is None:
        notification_send(
            party=dispute.provider.party, kind=kind, context=context, url="/provider/earnings/#disputes", now=now
        )
        return
    job = dispute.attempt.job
    context["job_name"] = job.name or str(job.pk)[:8]
    notification_send(party=customer, kind=kind, context=context, url=f"/jobs/{job.pk}/#disputes", now=now)
