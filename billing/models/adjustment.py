from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from billing.models.account import Account
from billing.models.ledger import Transfer
from core.models import BaseModel
from core.money import MICRO

PERSON = settings.AUTH_USER_MODEL

ADJUSTMENT_MAX_MICRO = 1_000 * MICRO
"""1,000 USDC: a correction of what a machine or a person got wrong about one customer or provider, several days of a large
job at most. Whatever is more has a verb with proof of its own (a deposit, a payout, a service credit)."""


class Adjustment(BaseModel):
    """A correction of one party's balance by hand: proposed by one person, posted by another one's yes, or refused.

    ``amount_micro``: positive gives, negative takes; the other leg is the house's account of adjustments. ``reason`` is a
    sentence that the account's owner reads in history and statement; ``evidence`` is where the proof lies, for staff only.
    """

    class State(models.TextChoices):
        PROPOSED = "proposed", _("Waits for a second person")
        POSTED = "posted", _("Posted")
        REFUSED = "refused", _("Refused")

    ACCOUNTS = (Account.Kind.CUSTOMER, Account.Kind.PROVIDER_PAYABLE)
    """Pending earnings are the sum of their lines, and what is in flight the sum of payouts: neither is anybody's to adjust."""

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="adjustments")
    amount_micro = models.BigIntegerField()
    reason = models.CharField(max_length=200)
    evidence = models.CharField(max_length=500)
    state = models.CharField(max_length=8, choices=State, default=State.PROPOSED)
    proposed_by = models.ForeignKey(PERSON, on_delete=models.PROTECT, related_name="adjustments_proposed")
    decided_by = models.ForeignKey(PERSON, on_delete=models.PROTECT, null=True, related_name="adjustments_decided")
    decided_at = models.DateTimeField(null=True)
    refusal = models.CharField(max_length=200, blank=True, default="")
    """Why it was refused, in the words of whoever did."""
    transfer = models.OneToOneField(Transfer, on_delete=models.PROTECT, null=True, related_name="adjustment")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(amount_micro__gte=-ADJUSTMENT_MAX_MICRO, amount_micro__lte=ADJUSTMENT_MAX_MICRO)
                & ~Q(amount_micro=0),
                name="billing_adjustment_amount",
            ),
            models.CheckConstraint(condition=~Q(reason="") & ~Q(evidence=""), name="billing_adjustment_has_reason"),
            models.CheckConstraint(
                condition=Q(state="proposed", decided_by__isnull=True, decided_at__isnull=True)
                & Q(transfer__isnull=True, refusal="")
                | Q(state="posted", decided_by__isnull=False, decided_at__isnull=False)
                & Q(transfer__isnull=False, refusal="")
                & ~Q(decided_by=F("proposed_by"))
                | Q(state="refused", decided_by__isnull=False, decided_at__isnull=False)
                & Q(transfer__isnull=True)
                & ~Q(refusal=""),
                name="billing_adjustment_two_people",
            ),
        ]
        indexes = [
            models.Index(fields=["-created_at"], name="billing_adjustment_waiting", condition=Q(state="proposed")),
            # The rolling sum of a day is asked for whenever one is confirmed.
            models.Index(fields=["decided_at"], name="billing_adjustment_of_day", condition=Q(state="posted")),
        ]

    def __str__(self) -> str:
        return f"adjustment {self.pk}"
