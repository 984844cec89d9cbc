from __future__ import annotations

from django.db import models
from django.db.models import Func, Q
from django.db.models.functions import Cast

from accounts.models import Party
from billing.models.account import Account
from core.models import BaseModel


class CurrentTransaction(Func):
    """The database transaction's own number (64 bits, the same inside savepoints)."""

    function = "pg_current_xact_id"
    output_field = models.TextField()


class Transfer(BaseModel):
    """The header of one zero-sum set of postings. Written once, together with them, in one database transaction.

    ``source`` names what it is for (``usage:<rental>:<n>``); a source is posted once. ``request_hash`` (SHA-256) tells a
    repetition of the same request from a different one under the same name.
    """

    class Kind(models.TextChoices):
        DEPOSIT = "deposit"
        USAGE = "usage"
        SERVICE_CREDIT = "service_credit"
        DISPUTE = "dispute"
        EARNINGS_MATURED = "earnings_matured"
        PAYOUT_RESERVED = "payout_reserved"
        PAYOUT_SETTLED = "payout_settled"
        PAYOUT_CANCELLED = "payout_cancelled"
        NETWORK_FEE = "network_fee"
        FUNDING = "funding"
        PAYOUT_RETURNED = "payout_returned"
        BANK_BOOKED = "bank_booked"
        WITHDRAWAL_RESERVED = "withdrawal_reserved"
        WITHDRAWAL_CANCELLED = "withdrawal_cancelled"
        DEPOSIT_CLAIMED = "deposit_claimed"
        ADJUSTMENT = "adjustment"

    source = models.CharField(max_length=160, unique=True)
    kind = models.CharField(max_length=24, choices=Kind)
    request_hash = models.BinaryField(max_length=32)
    effective_at = models.DateTimeField()
    written_in = models.BigIntegerField(
        db_default=Cast(Cast(CurrentTransaction(), models.TextField()), models.BigIntegerField()), editable=False
    )
    """The transaction that wrote the header: postings of another one are refused by a trigger."""

    class Meta:
        # The fundings of the hot wallet are few among very many, and asked for whenever it is read.
        indexes = [models.Index(fields=["created_at"], name="billing_transfer_funding", condition=Q(kind="funding"))]

    def __str__(self) -> str:
        return self.source


class Posting(models.Model):
    """One leg of a transfer, in the smallest unit of its account's asset."""

    id = models.BigAutoField(primary_key=True)
    transfer = models.ForeignKey(Transfer, on_delete=models.PROTECT, related_name="postings", db_index=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="postings", db_index=False)
    amount = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["transfer", "account"], name="billing_posting_once_per_account"),
            models.CheckConstraint(condition=~Q(amount=0), name="billing_posting_not_zero"),
        ]
        indexes = [models.Index(fields=["account", "id"], name="billing_posting_account")]

    def __str__(self) -> str:
        return f"{self.account_id}: {self.amount:+d}"


class PostingFence(models.Model):
    """ "Up to this posting": passed once every transaction that may still write an earlier one has ended.

    Ids are handed out in order but committed in any: the largest one that is visible says nothing about those before it.
    Whoever holds an id up to ``posting_id`` got its transaction's number before this row got ``written_in``, so nothing is
    missing any more when all transactions up to ``written_in`` have ended.
    """

    id = models.BigAutoField(primary_key=True)
    posting_id = models.BigIntegerField()
    written_in = models.BigIntegerField(
        db_default=Cast(Cast(CurrentTransaction(), models.TextField()), models.BigIntegerField()), editable=False
    )
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"up to posting {self.posting_id}"


class BalanceCheckpoint(models.Model):
    """What the postings of a house account add up to, up to a posting. The balance is this plus the postings after it."""

    id = models.BigAutoField(primary_key=True)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="checkpoints", db_index=False)
    posting_id = models.BigIntegerField()
    balance = models.BigIntegerField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "posting_id"], name="billing_checkpoint_once")]

    def __str__(self) -> str:
        return f"{self.account_id}: {self.balance:+d} up to posting {self.posting_id}"


class EarningLine(models.Model):
    """What one GPU earned by one transfer, after the fee (negative when a service credit takes it back).

    Billing knows no machine: GPU, model and rental are labels that marketplace passes in. The lines of a transfer add up
    to its provider leg. A line never changes, except that ``matured_at`` and ``matured_by`` are set once: ``matured_by`` is
    the transfer that moved it into (or out of) the payable balance, null where a set of lines matured that adds up to 0.
    """

    id = models.BigAutoField(primary_key=True)
    transfer = models.ForeignKey(Transfer, on_delete=models.PROTECT, related_name="earning_lines")
    provider = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="earning_lines", db_index=False)
    gpu_id = models.UUIDField()
    gpu_model = models.CharField(max_length=80)
    rental_id = models.UUIDField()
    amount_micro = models.BigIntegerField()
    earned_at = models.DateTimeField()
    matures_at = models.DateTimeField()
    matured_at = models.DateTimeField(null=True)
    matured_by = models.ForeignKey(Transfer, on_delete=models.PROTECT, null=True, related_name="matured_lines")

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(amount_micro=0), name="billing_earningline_not_zero")]
        indexes = [
            models.Index(fields=["provider", "earned_at"], name="billing_earning_by_time"),
            models.Index(
                fields=["provider", "matures_at"],
                name="billing_earning_unmatured",
                condition=Q(matured_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.gpu_model} {self.amount_micro:+d}"


class CreditedUsage(models.Model):
    """A charge that a service credit gave (part of) back; at most once per charge."""

    usage = models.OneToOneField(Transfer, on_delete=models.PROTECT, primary_key=True, related_name="credited")
    credit = models.ForeignKey(Transfer, on_delete=models.PROTECT, related_name="credits")

    class Meta:
        verbose_name_plural = "credited usage"

    def __str__(self) -> str:
        return f"{self.usage_id} by {self.credit_id}"
