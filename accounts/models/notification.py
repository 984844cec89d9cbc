from __future__ import annotations

import re

from django.conf import settings
from django.db import models

from core.models import BaseModel


class Notification(BaseModel):
    """One message to one user: in the inbox, and once by mail. Written in the language the user had then.

    ``mail_due_at`` is when the next sending may be tried (null once it is mailed); taking it forward is the claim.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="notifications")
    kind = models.CharField(max_length=60)
    subject = models.CharField(max_length=200)
    body = models.TextField()
    url = models.CharField(max_length=300, blank=True)
    """A path of ours, such as ``/jobs/…/``; never a whole address."""
    read_at = models.DateTimeField(null=True, blank=True)
    mail_secrets = models.BinaryField(null=True, editable=False)
    """Secrets that go into the mail alone (encrypted), forgotten once it is sent."""
    mail_due_at = models.DateTimeField(null=True, editable=False)
    mail_attempts = models.PositiveSmallIntegerField(default=0, editable=False)
    mailed_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        indexes = [
            models.Index(fields=["user", "-id"], name="accounts_notification_inbox"),
            models.Index(
                fields=["mail_due_at"],
                name="accounts_notification_due",
                condition=models.Q(mail_due_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.subject

    @property
    def inbox_body(self) -> str:
        """The text as the inbox shows it: where the mail had a secret there are dots."""
        return re.sub(r"\[\[\w+\]\]", "••••••••", self.body)
