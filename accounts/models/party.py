from __future__ import annotations

from django.conf import settings
from django.db import models

from core.models import BaseModel


class Party(BaseModel):
    """Who owns things: a person today, a team tomorrow. Balances, jobs and provider profiles belong to a party."""

    class Kind(models.TextChoices):
        PERSON = "person"
        TEAM = "team"

    class Status(models.TextChoices):
        ACTIVE = "active"
        SUSPENDED = "suspended"
        CLOSED = "closed"

    kind = models.CharField(max_length=16, choices=Kind, default=Kind.PERSON)
    handle = models.SlugField(max_length=40, unique=True)
    """What others see of a party: never a name or an address."""
    legal_name = models.CharField(max_length=140, blank=True, db_default="", default="")
    """Who it is before a bank: the company's or the person's name that a reviewer has approved. Shown to nobody else."""
    status = models.CharField(max_length=16, choices=Status, default=Status.ACTIVE)

    class Meta:
        verbose_name_plural = "parties"

    def __str__(self) -> str:
        return self.handle


class PartyMember(BaseModel):
    """A user's place in a party. A person's own party has exactly one member, its owner."""

    class Role(models.TextChoices):
        OWNER = "owner"
        MEMBER = "member"

    party = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="members")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role, default=Role.OWNER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["party", "user"], name="accounts_partymember_once")]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.party_id}"
