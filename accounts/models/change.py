from __future__ import annotations

from django.conf import settings
from django.db import models

from core.models import BaseModel


class AccountChange(BaseModel):
    """Something about a log-in was changed: who holds it now may be somebody else than before. ``created_at`` says when."""

    class What(models.TextChoices):
        EMAIL = "email", "E-mail address"
        PASSWORD_RESET = "password_reset", "Password, by a reset"
        SECOND_FACTOR = "second_factor", "Second factor"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="changes")
    what = models.CharField(max_length=16, choices=What)
    former_email = models.EmailField(blank=True)
    """The address that was given up; empty for other changes. It is written to for a while, because its owner may not know."""

    class Meta:
        indexes = [models.Index(fields=["user", "created_at"], name="accounts_change_latest")]

    def __str__(self) -> str:
        return f"{self.what} of {self.user_id}"
