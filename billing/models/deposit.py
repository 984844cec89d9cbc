from __future__ import annotations

from django.db import models
from django.db.models import Q

from accounts.models import Party
from billing.models.ledger import Transfer
from core.models import BaseModel


class DepositIntent(BaseModel):
    """A customer's wish to pay in: a fresh Solana Pay reference key that labels the payment. It proves nothing."""

    party = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="deposit_intents")
    reference = models.CharField(max_length=44, unique=True)
    amount_micro = models.BigIntegerField(null=True)
    memo = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(amount_micro__isnull=True) | Q(amount_micro__gt=0), name="billing_intent_amount_positive"
            )
        ]

    def __str__(self) -> str:
        return self.reference


class Deposit(BaseModel):
    """What arrived on one of our token accounts by one finalized transaction: post − pre balance of our account and mint."""

    class State(models.TextChoices):
        CREDITED = "credited"
        SUSPENSE = "suspense"

    signature = models.CharField(max_length=88)
    account = models.CharField(max_length=44)
    slot = models.BigIntegerField()
    block_time = models.DateTimeField(null=True)
    amount_micro = models.BigIntegerField()
    sender = models.CharField(max_length=44, blank=True)
    party = models.ForeignKey(Party, on_delete=models.PROTECT, null=True, related_name="deposits")
    intent = models.ForeignKey(DepositIntent, on_delete=models.PROTECT, null=True, related_name="deposits")
    state = models.CharField(max_length=16, choices=State)
    reason = models.CharField(max_length=80, blank=True)
    transfer = models.OneToOneField(Transfer, on_delete=models.PROTECT, related_name="deposit")
    claim_transfer = models.OneToOneField(Transfer, on_delete=models.PROTECT, null=True, related_name="claimed_deposit")
    """Out of suspense, to whoever proved that it is theirs (DepositClaim); null for what was credited as it arrived."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["signature", "account"], name="billing_deposit_once"),
            models.CheckConstraint(condition=Q(amount_micro__gt=0), name="billing_deposit_positive"),
            models.CheckConstraint(
                condition=Q(state="credited", party__isnull=False) | Q(state="suspense", party__isnull=True),
                name="billing_deposit_credited_to_somebody",
            ),
        ]
        # The reader asks every few seconds what it has of the overlap.
        indexes = [models.Index(fields=["account", "slot"], name="billing_deposit_recent")]

    def __str__(self) -> str:
        return self.signature


class ForeignPayment(BaseModel):
    """What reached our vault's owner under one of our references and is no USDC: never credited, told to the customer once.

    ``mint`` is the other token's, or ``SOL``; ``amount`` counts its smallest unit, whatever that is worth.
    """

    signature = models.CharField(max_length=88)
    mint = models.CharField(max_length=44)
    amount = models.DecimalField(max_digits=20, decimal_places=0)
    """A token's amount has 64 unsigned bits, one more than a bigint."""
    slot = models.BigIntegerField()
    block_time = models.DateTimeField(null=True)
    sender = models.CharField(max_length=44, blank=True)
    intent = models.ForeignKey(DepositIntent, on_delete=models.PROTECT, related_name="foreign_payments")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["signature", "mint"], name="billing_foreignpayment_once"),
            models.CheckConstraint(condition=Q(amount__gt=0), name="billing_foreignpayment_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.amount} of {self.mint}"


class ReaderCursor(models.Model):
    """How far the reader has read one token account's finalized history; no signature: watched, nothing read yet."""

    account = models.CharField(max_length=44, primary_key=True)
    signature = models.CharField(max_length=88)
    slot = models.BigIntegerField()
    read_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.account
