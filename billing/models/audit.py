from __future__ import annotations

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models

from accounts.models import Party


class AuditEntry(models.Model):
    """One deed of a person with money: who, which verb, on what, what was before, what is after, why. Append-only.

    ``user`` is null for the command line; ``actor`` says so in words. ``party``: whose money it is about, null for the house's.
    Written in the transaction of the deed itself: there is no deed without its entry, and no entry without its deed.
    """

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="money_deeds", db_index=False
    )
    actor = models.CharField(max_length=80)
    verb = models.CharField(max_length=40)
    """The service's name, such as ``payout_cancel``."""
    subject_type = models.CharField(max_length=64)
    subject_id = models.CharField(max_length=40)
    party = models.ForeignKey(Party, on_delete=models.PROTECT, null=True, related_name="money_deeds", db_index=False)
    before = models.JSONField(encoder=DjangoJSONEncoder)
    after = models.JSONField(encoder=DjangoJSONEncoder)
    reason = models.TextField(blank=True)

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["subject_id"], name="billing_audit_subject"),
            models.Index(fields=["user", "-id"], name="billing_audit_user"),
            models.Index(fields=["party", "-id"], name="billing_audit_party"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} by {self.actor}"
