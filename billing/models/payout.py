from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.models import Party
from billing.models.account import USDC
from billing.models.destination import Destination, Rail
from billing.models.ledger import Transfer
from billing.models.rate import EurRate
from billing.states import ATTEMPT_LIVE
from core.models import BaseModel


class Cycle(models.TextChoices):
    WEEKLY = "weekly", "Weekly"
    MONTHLY = "monthly", "Monthly"


class RunKind(models.TextChoices):
    """A cycle's run pays many for a period; a withdrawal is a run of one, made when its customer asks for it."""

    WEEKLY = "weekly", "Weekly"
    MONTHLY = "monthly", "Monthly"
    WITHDRAWAL = "withdraw", "Withdrawal"


class PayoutCycle(models.Model):
    """How often a party is paid, from a day on. Without a row: weekly."""

    id = models.BigAutoField(primary_key=True)
    party = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="payout_cycles")
    kind = models.CharField(max_length=8, choices=Cycle)
    valid_from = models.DateField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["party", "valid_from"], name="billing_payoutcycle_once")]

    def __str__(self) -> str:
        return f"{self.kind} from {self.valid_from}"


class PayoutRun(BaseModel):
    """One period's payouts. UNIQUE(kind, period_start): however often it is started, a period is planned once.

    A withdrawal is a run, too, of the day it was asked for: the same pre-flight, pause and release as everybody's."""

    class Status(models.TextChoices):
        PLANNING = "planning"
        PLANNED = "planned"
        PAUSED = "paused"
        RELEASED = "released"
        FINISHED = "finished"

    kind = models.CharField(max_length=8, choices=RunKind)
    period_start = models.DateField()
    period_end = models.DateField()
    """The first day after the period (UTC): what matured before it is paid."""
    status = models.CharField(max_length=16, choices=Status, default=Status.PLANNING)
    pause_reason = models.CharField(max_length=200, blank=True)
    planned_at = models.DateTimeField(null=True)
    bank_planned_at = models.DateTimeField(null=True)
    """When its bank payouts were planned: they wait for a day on which banks are open, and for a rate."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "period_start"], condition=~Q(kind="withdraw"), name="billing_payoutrun_period_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.period_start}"


class Payout(BaseModel):
    """An obligation: this amount to this destination. Its money is in flight from its first moment.

    Amount and destination are a snapshot that never changes; how it is carried out is told by its attempts.
    """

    class Status(models.TextChoices):
        AWAITING_RELEASE = "awaiting_release"
        READY = "ready"
        BLOCKED = "blocked"
        SUBMITTED = "submitted"
        UNKNOWN = "unknown"
        SETTLED = "settled"
        CANCELLED = "cancelled"

    OPEN = (Status.AWAITING_RELEASE, Status.READY, Status.BLOCKED, Status.SUBMITTED, Status.UNKNOWN)
    ADVANCING = (Status.READY, Status.BLOCKED, Status.SUBMITTED, Status.UNKNOWN)

    run = models.ForeignKey(PayoutRun, on_delete=models.PROTECT, related_name="payouts")
    party = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="payouts")
    asset = models.CharField(max_length=8, default=USDC)
    amount_micro = models.BigIntegerField()
    fee_micro = models.BigIntegerField(db_default=0, default=0)
    """What a withdrawal cost its customer on top of ``amount_micro``; 0 for earnings."""
    request_key = models.UUIDField(null=True)
    """The customer's own name for a withdrawal, so that asking twice is asking once. Null for earnings."""
    rail = models.CharField(max_length=8, choices=Rail)
    destination = models.ForeignKey(Destination, on_delete=models.PROTECT, related_name="payouts")
    address = models.CharField(max_length=64)
    amount_cents = models.BigIntegerField(null=True)
    """What the bank is to pay, in the currency's cents: exactly what ``amount_micro`` buys. Null for a wallet."""
    currency = models.CharField(max_length=3, blank=True, db_default="", default="")
    eur_rate = models.ForeignKey(EurRate, on_delete=models.PROTECT, null=True, related_name="payouts", db_index=False)
    status = models.CharField(max_length=20, choices=Status, default=Status.AWAITING_RELEASE)
    note = models.CharField(max_length=200, blank=True)
    """Why it is blocked or unknown, in words for staff."""
    released_at = models.DateTimeField(null=True)
    """When two people (or the demo's policy) let it go; what counts for the rolling limit."""
    next_look_at = models.DateTimeField()
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    reserve_transfer = models.OneToOneField(Transfer, on_delete=models.PROTECT, related_name="payout_reserved")
    closing_transfer = models.OneToOneField(Transfer, on_delete=models.PROTECT, null=True, related_name="payout_closed")
    settled_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "party"], name="billing_payout_once_per_run"),
            models.UniqueConstraint(
                fields=["party", "request_key"],
                condition=Q(request_key__isnull=False),
                name="billing_payout_requested_once",
            ),
            models.CheckConstraint(condition=Q(amount_micro__gt=0), name="billing_payout_positive"),
            models.CheckConstraint(
                condition=Q(fee_micro__gte=0) & (Q(fee_micro=0) | Q(request_key__isnull=False)),
                name="billing_payout_fee_of_withdrawal",
            ),
            models.CheckConstraint(
                condition=Q(rail="bank", amount_cents__gt=0, currency="EUR", eur_rate__isnull=False)
                | ~Q(rail="bank") & Q(amount_cents__isnull=True, currency="", eur_rate__isnull=True),
                name="billing_payout_bank_has_rate",
            ),
            models.CheckConstraint(
                condition=Q(status__in=("settled", "cancelled"), closing_transfer__isnull=False)
                | (~Q(status__in=("settled", "cancelled")) & Q(closing_transfer__isnull=True)),
                name="billing_payout_closed_by_transfer",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_look_at"],
                name="billing_payout_due",
                condition=Q(status__in=("ready", "blocked", "submitted", "unknown")),
            ),
            models.Index(fields=["party", "created_at"], name="billing_payout_of_party"),
            models.Index(
                fields=["released_at"], name="billing_payout_released", condition=Q(released_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"payout {self.pk}"

    @property
    def is_withdrawal(self) -> bool:
        """A customer's own money on its way back, not earnings."""
        return self.request_key is not None


class PayoutAttempt(BaseModel):
    """One signed transaction of a payout, committed before it is first sent. At most one may still land."""

    class State(models.TextChoices):
        SIGNED = "signed"
        SENT = "sent"
        UNKNOWN = "unknown"
        LANDED = "landed"
        SETTLED = "settled"
        FAILED = "failed"
        EXPIRED = "expired"

    payout = models.ForeignKey(Payout, on_delete=models.PROTECT, related_name="attempts")
    n = models.PositiveSmallIntegerField()
    message = models.BinaryField()
    raw = models.BinaryField()
    signature = models.CharField(max_length=88, unique=True)
    blockhash = models.CharField(max_length=44)
    last_valid_block_height = models.BigIntegerField()
    context_slot = models.BigIntegerField()
    """The slot the node answered at when it gave the blockhash: history must reach back to it to prove an expiry."""
    hot_wallet = models.CharField(max_length=44)
    state = models.CharField(max_length=16, choices=State, default=State.SIGNED)
    sends = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=200, blank=True)
    fee_lamports = models.BigIntegerField(null=True)
    rent_lamports = models.BigIntegerField(null=True)
    """What creating the recipient's token account cost us; null until it is known."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["payout", "n"], name="billing_attempt_numbered"),
            models.UniqueConstraint(
                fields=["payout"], condition=Q(state__in=ATTEMPT_LIVE), name="billing_attempt_one_live"
            ),
        ]
        # The treasury's reader asks every minute which recent transactions are ours.
        indexes = [models.Index(fields=["context_slot"], name="billing_attempt_recent")]

    def __str__(self) -> str:
        return f"attempt {self.n} of {self.payout_id}"


class PayoutApproval(BaseModel):
    """One person's yes to exactly this payout: ``binding`` is the hash of payout, destination, amount and rate."""

    payout = models.ForeignKey(Payout, on_delete=models.PROTECT, related_name="approvals")
    approver = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="payout_approvals")
    binding = models.BinaryField(max_length=32)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["payout", "approver"], name="billing_approval_once_per_person")]

    def __str__(self) -> str:
        return f"{self.approver_id} approves {self.payout_id}"


class PayoutSwitch(models.Model):
    """Payouts frozen or thawed, by whom and why; the latest row holds. Frozen: nothing new is signed."""

    id = models.BigAutoField(primary_key=True)
    frozen = models.BooleanField()
    restored = models.BooleanField(db_default=False, default=False)
    """Frozen because the books came from a backup: thawed only after every memo on chain was matched (a law)."""
    reason = models.CharField(max_length=200)
    actor = models.CharField(max_length=80)
    at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "payout switches"

    def __str__(self) -> str:
        return ("frozen: " if self.frozen else "running: ") + self.reason
