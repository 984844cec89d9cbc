from __future__ import annotations

import re

from django.conf import settings
from django.db import models

from core.models import BaseModel


class Notification(BaseModel):
    """One message to one user: in the inbox, and once by mail. Written in the language the user had then."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="notifications")
    kind = models.CharField(max_length=60)
    subject = models.CharField(max_length=200)
    body = models.TextField()
    url = models.CharField(max_length=300, blank=True)
    """A path of ours, such as ``/jobs/…/``; never a whole address."""
    read_at = models.DateTimeField(null=True, blank=True)
    mail = models.OneToOneField("accounts.Mail", on_delete=models.SET_NULL, null=True, related_name="notification")
    """The mail that went out with it; null once that was long ago."""

    class Meta:
        indexes = [
            models.Index(fields=["user", "-id"], name="accounts_notification_inbox"),
        ]

    def __str__(self) -> str:
        return self.subject

    @property
    def inbox_body(self) -> str:
        """The text as the inbox shows it: where the mail had a secret there are dots."""
        return re.sub(r"\[\[\w+\]\]", "••••••••", self.body)
