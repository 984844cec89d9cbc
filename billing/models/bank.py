from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from billing.models.ledger import Transfer
from billing.models.payout import Payout
from billing.states import BANK_LINE_LIVE
from core import clock
from core.models import BaseModel

PERSON = settings.AUTH_USER_MODEL


class BankFile(BaseModel):
    """A payment file, written before anybody can fetch it. Its bytes never change: fetching it again is the same file."""

    scheme = models.CharField(max_length=16)
    message_id = models.CharField(max_length=35, unique=True)
    account = models.CharField(max_length=34)
    currency = models.CharField(max_length=3)
    execution_date = models.DateField()
    line_count = models.PositiveIntegerField()
    control_cents = models.BigIntegerField()
    data = models.BinaryField()
    sha256 = models.BinaryField(max_length=32, unique=True)
    made_by = models.ForeignKey(PERSON, on_delete=models.PROTECT, related_name="bank_files_made")
    approved_by = models.ForeignKey(PERSON, on_delete=models.PROTECT, null=True, related_name="bank_files_approved")
    approved_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(line_count__gt=0, control_cents__gt=0), name="billing_bankfile_not_empty"
            ),
            models.CheckConstraint(
                condition=Q(approved_by__isnull=True, approved_at__isnull=True)
                | Q(approved_by__isnull=False, approved_at__isnull=False) & ~Q(approved_by=F("made_by")),
                name="billing_bankfile_two_people",
            ),
        ]

    def __str__(self) -> str:
        return self.message_id


class BankLine(BaseModel):
    """One payment of one file. While the bank may still pay it, its payout has no other one and cannot be cancelled."""

    class State(models.TextChoices):
        WRITTEN = "written"
        ACCEPTED = "accepted"
        SETTLED = "settled"
        REJECTED = "rejected"
        ABSENT = "absent"
        RETURNED = "returned"

    file = models.ForeignKey(BankFile, on_delete=models.PROTECT, related_name="lines")
    payout = models.ForeignKey(Payout, on_delete=models.PROTECT, related_name="bank_lines")
    n = models.PositiveSmallIntegerField()
    end_to_end_id = models.CharField(max_length=35, unique=True)
    amount_cents = models.BigIntegerField()
    state = models.CharField(max_length=16, choices=State, default=State.WRITTEN)
    reason = models.CharField(max_length=200, blank=True)
    """Why it was rejected, or came back, in the bank's words; why it counts as absent, in ours."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["payout", "n"], name="billing_bankline_numbered"),
            models.UniqueConstraint(
                fields=["payout"], condition=Q(state__in=BANK_LINE_LIVE), name="billing_bankline_one_live"
            ),
            models.CheckConstraint(condition=Q(amount_cents__gt=0), name="billing_bankline_positive"),
        ]

    def __str__(self) -> str:
        return self.end_to_end_id


class BankMessage(BaseModel):
    """A file from the bank as it came: its answer to one of ours, or a statement. The same bytes are taken once."""

    class Kind(models.TextChoices):
        REPORT = "report"
        STATEMENT = "statement"

    kind = models.CharField(max_length=12, choices=Kind)
    scheme = models.CharField(max_length=16)
    name = models.CharField(max_length=35)
    """The bank's own id of the message."""
    closing_on = models.DateField(null=True)
    """The last day that a statement covers."""
    closing_cents = models.BigIntegerField(null=True)
    data = models.BinaryField()
    sha256 = models.BinaryField(max_length=32, unique=True)
    imported_by = models.ForeignKey(PERSON, on_delete=models.PROTECT, related_name="bank_messages")
    outcome = models.JSONField()
    """How many of its lines did what: ``{"settled": 2, "suspense": 1}``."""

    class Meta:
        indexes = [models.Index(fields=["-closing_on"], name="billing_bankmessage_closing")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class BankEntry(BaseModel):
    """One booked movement on our account (or a word of the bank that fits nothing of ours), used once.

    What fits a line is matched; anything else waits in suspense, moving nothing, until two people say what it is.
    """

    class Side(models.TextChoices):
        DEBIT = "debit"
        CREDIT = "credit"
        REPORT = "report"

    class State(models.TextChoices):
        SUSPENSE = "suspense"
        MATCHED = "matched"
        RESOLVED = "resolved"

    class Outcome(models.TextChoices):
        SETTLED = "settled"
        RETURNED = "returned"
        CAPITAL = "capital"
        CHARGE = "charge"
        NOTED = "noted"

    message = models.ForeignKey(BankMessage, on_delete=models.PROTECT, related_name="entries")
    key = models.CharField(max_length=64, unique=True)
    """SHA-256 of what names the movement, so that two statements that have it are one movement."""
    side = models.CharField(max_length=8, choices=Side)
    currency = models.CharField(max_length=3)
    amount_cents = models.BigIntegerField()
    booked_on = models.DateField(null=True)
    end_to_end_id = models.CharField(max_length=35, blank=True)
    reference = models.CharField(max_length=35, blank=True)
    counterparty = models.CharField(max_length=140, blank=True)
    text = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=12, choices=State, default=State.SUSPENSE)
    outcome = models.CharField(max_length=12, choices=Outcome, blank=True)
    reason = models.CharField(max_length=200, blank=True)
    """Why it is in suspense; the bank's reason for a return."""
    line = models.ForeignKey(BankLine, on_delete=models.PROTECT, null=True, related_name="entries")
    transfer = models.OneToOneField(Transfer, on_delete=models.PROTECT, null=True, related_name="bank_entry")

    class Meta:
        verbose_name_plural = "bank entries"
        constraints = [
            models.CheckConstraint(condition=Q(amount_cents__gte=0), name="billing_bankentry_not_negative"),
            # Moved money has a transfer; suspense and notes have none.
            models.CheckConstraint(
                condition=Q(state="suspense", outcome="", transfer__isnull=True)
                | ~Q(state="suspense") & Q(outcome="noted", transfer__isnull=True)
                | ~Q(state="suspense")
                & Q(outcome__in=("settled", "returned"), transfer__isnull=False, line__isnull=False)
                | ~Q(state="suspense") & Q(outcome__in=("capital", "charge"), transfer__isnull=False),
                name="billing_bankentry_used_once",
            ),
            models.UniqueConstraint(
                fields=["line"], condition=Q(outcome="settled"), name="billing_bankentry_settles_once"
            ),
            models.UniqueConstraint(
                fields=["line"], condition=Q(outcome="returned"), name="billing_bankentry_returns_once"
            ),
        ]
        indexes = [
            models.Index(fields=["created_at"], name="billing_bankentry_suspense", condition=Q(state="suspense"))
        ]

    def __str__(self) -> str:
        return f"{self.side} {self.amount_cents} {self.currency} {self.reference or self.end_to_end_id}".strip()


class BankDecision(BaseModel):
    """What a person says about a line or an entry, with a reason; it counts once a second person agrees."""

    class Verdict(models.TextChoices):
        ABSENT = "absent"
        SETTLED = "settled"
        RETURNED = "returned"
        CAPITAL = "capital"
        CHARGE = "charge"
        NOTED = "noted"

    verdict = models.CharField(max_length=12, choices=Verdict)
    line = models.ForeignKey(BankLine, on_delete=models.PROTECT, null=True, related_name="decisions")
    entry = models.ForeignKey(BankEntry, on_delete=models.PROTECT, null=True, related_name="decisions")
    reason = models.CharField(max_length=200)
    proposed_by = models.ForeignKey(PERSON, on_delete=models.PROTECT, related_name="bank_decisions_proposed")
    confirmed_by = models.ForeignKey(
        PERSON, on_delete=models.PROTECT, null=True, related_name="bank_decisions_confirmed"
    )
    confirmed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(confirmed_by__isnull=True, confirmed_at__isnull=True)
                | Q(confirmed_by__isnull=False, confirmed_at__isnull=False) & ~Q(confirmed_by=F("proposed_by")),
                name="billing_bankdecision_two_people",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="billing_bankdecision_has_reason"),
            models.CheckConstraint(
                condition=Q(verdict="absent", line__isnull=False, entry__isnull=True)
                | Q(verdict__in=("settled", "returned"), line__isnull=False, entry__isnull=False)
                | Q(verdict__in=("capital", "charge", "noted"), line__isnull=True, entry__isnull=False),
                name="billing_bankdecision_is_about_something",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.reason}"


class Disclosure(models.Model):
    """Somebody of the staff saw bank data in full: which, who, when."""

    class What(models.TextChoices):
        FILE = "file"
        DESTINATION = "destination"
        MESSAGE = "message"

    id = models.BigAutoField(primary_key=True)
    what = models.CharField(max_length=16, choices=What)
    subject_id = models.UUIDField()
    actor = models.ForeignKey(PERSON, on_delete=models.PROTECT, related_name="disclosures")
    at = models.DateTimeField(default=clock.now)

    class Meta:
        indexes = [models.Index(fields=["subject_id"], name="billing_disclosure_subject")]

    def __str__(self) -> str:
        return f"{self.what} {self.subject_id} to {self.actor_id}"
