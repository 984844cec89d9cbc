from __future__ import annotations

from django.db import models

from core.models import BaseModel


class Mail(BaseModel):
    """One plain-text mail on its way out. ``sealed`` holds its subject and body (they may carry secrets) until it is sent.

    ``due_at`` is when the next sending may be tried (null once it is sent, or given up); taking it forward is the claim.
    """

    to = models.EmailField()
    sealed = models.BinaryField(null=True, editable=False)
    due_at = models.DateTimeField(null=True, editable=False)
    attempts = models.PositiveSmallIntegerField(default=0, editable=False)
    sent_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], name="accounts_mail_due", condition=models.Q(due_at__isnull=False)),
            models.Index(fields=["created_at"], name="accounts_mail_age"),
        ]

    def __str__(self) -> str:
        return self.to
