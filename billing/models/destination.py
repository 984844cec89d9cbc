from __future__ import annotations

from django.db import models
from django.db.models import Q

from accounts.models import Party
from billing.rails.base import masked
from core.models import BaseModel


class Rail(models.TextChoices):
    USDC = "usdc", "USDC (Solana)"
    BANK = "bank", "Bank"


class Purpose(models.TextChoices):
    """What a destination is for. A provider's earnings may go to a bank; a customer's own money goes back to a wallet."""

    PAYOUT = "payout", "Payouts of earnings"
    WITHDRAWAL = "withdrawal", "Withdrawals of unspent money"


class Destination(BaseModel):
    """Where a party is paid: a wallet it has proven to hold, or a bank account in its own name. One active per party and
    purpose; older ones stay as history. ``address`` is the wallet's address or the IBAN."""

    class State(models.TextChoices):
        ACTIVE = "active"
        REPLACED = "replaced"

    party = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="destinations")
    purpose = models.CharField(max_length=12, choices=Purpose, db_default="payout", default=Purpose.PAYOUT)
    rail = models.CharField(max_length=8, choices=Rail, default=Rail.USDC)
    address = models.CharField(max_length=64)
    scheme = models.CharField(max_length=16, blank=True, db_default="", default="")
    """The bank rail's name (``billing.rails.RAILS``); empty for a wallet."""
    holder = models.CharField(max_length=140, blank=True, db_default="", default="")
    """Whose bank account it is: the party's legal name then; empty for a wallet."""
    state = models.CharField(max_length=16, choices=State, default=State.ACTIVE)
    usable_from = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["party", "purpose"], condition=Q(state="active"), name="billing_destination_one_per_purpose"
            ),
            models.CheckConstraint(
                condition=~Q(purpose="withdrawal") | Q(rail="usdc"), name="billing_destination_withdrawal_is_usdc"
            ),
            models.CheckConstraint(
                condition=Q(rail="bank") & ~Q(scheme="") & ~Q(holder="") | ~Q(rail="bank") & Q(scheme="", holder=""),
                name="billing_destination_bank_has_holder",
            ),
        ]

    def __str__(self) -> str:
        # Shown in titles and logs, where a whole bank account number has no business.
        return f"{self.rail} {masked(self.address) if self.rail == Rail.BANK else self.address}"


class DestinationChallenge(BaseModel):
    """A text to be signed by the wallet. It is used up by the first attempt to answer it, right or wrong."""

    party = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="destination_challenges")
    purpose = models.CharField(max_length=12, choices=Purpose, db_default="payout", default=Purpose.PAYOUT)
    address = models.CharField(max_length=64)
    text = models.TextField()
    expires_at = models.DateTimeField()
    consumed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["party", "address", "created_at"], name="billing_challenge_latest")]

    def __str__(self) -> str:
        return f"{self.address} until {self.expires_at}"
