from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from accounts.models import Party
from billing.models.deposit import Deposit
from core.models import BaseModel

PERSON = settings.AUTH_USER_MODEL
RIVALS_WAIT = timedelta(days=7)
"""Evidence convinces people, not mathematics: whoever else paid in has a week to say so before anybody gets the money."""


class DepositClaim(BaseModel):
    """Somebody says that a deposit in suspense is theirs. It names a transaction, which may not even exist.

    ``wallet``: the sending wallet signs ``text``, which decides it at once. ``evidence``: for what came from an exchange, whose
    wallet signs nothing; two of the staff decide, a week later. ``deposit`` is known once it is credited, not before.
    """

    class Kind(models.TextChoices):
        WALLET = "wallet"
        EVIDENCE = "evidence"

    class State(models.TextChoices):
        OPEN = "open"
        CREDITED = "credited"
        DECLINED = "declined"

    party = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="deposit_claims", db_index=False)
    kind = models.CharField(max_length=8, choices=Kind)
    signature = models.CharField(max_length=88)
    address = models.CharField(max_length=44, blank=True)
    text = models.TextField(blank=True)
    expires_at = models.DateTimeField(null=True)
    consumed_at = models.DateTimeField(null=True)
    """When the text was answered, right or wrong: it is used up."""
    evidence = models.TextField(blank=True)
    state = models.CharField(max_length=8, choices=State, default=State.OPEN)
    deposit = models.ForeignKey(Deposit, on_delete=models.PROTECT, null=True, related_name="claims")
    proposed_by = models.ForeignKey(PERSON, on_delete=models.PROTECT, null=True, related_name="claims_proposed")
    proposed_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=200, blank=True)
    """Why staff believe it."""
    confirmed_by = models.ForeignKey(PERSON, on_delete=models.PROTECT, null=True, related_name="claims_confirmed")
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind="wallet", expires_at__isnull=False, evidence="", proposed_by__isnull=True)
                & ~Q(address="")
                & ~Q(text="")
                | Q(kind="evidence", address="", text="", consumed_at__isnull=True) & ~Q(evidence=""),
                name="billing_claim_has_its_proof",
            ),
            models.CheckConstraint(
                condition=Q(state="open", deposit__isnull=True, closed_at__isnull=True)
                | Q(state="declined", deposit__isnull=True, closed_at__isnull=False)
                | Q(state="credited", deposit__isnull=False, closed_at__isnull=False),
                name="billing_claim_names_its_deposit",
            ),
            # A signature decides by itself; evidence needs a week, and two people who are not the same.
            models.CheckConstraint(
                condition=~Q(state="credited")
                | Q(kind="wallet", consumed_at__isnull=False)
                | Q(
                    kind="evidence",
                    proposed_by__isnull=False,
                    confirmed_by__isnull=False,
                    closed_at__gte=F("created_at") + RIVALS_WAIT,
                )
                & ~Q(confirmed_by=F("proposed_by")),
                name="billing_claim_credited_by_proof",
            ),
            models.UniqueConstraint(
                fields=["deposit"], condition=Q(state="credited"), name="billing_claim_credits_once"
            ),
        ]
        indexes = [
            models.Index(fields=["party", "-created_at"], name="billing_claim_of_party"),
            models.Index(fields=["signature"], name="billing_claim_open", condition=Q(state="open")),
        ]

    def __str__(self) -> str:
        return f"{self.kind} claim on {self.signature[:16]}…"
