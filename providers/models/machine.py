from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from core.models import BaseModel

NOTHING = models.Value([], models.JSONField())


class Machine(BaseModel):
    """One enrolled host. Its identity is this id and a credential, never a machine-id or a MAC address.

    ``boot_id`` and ``sequence`` are those of the last recorded session; ``plan_version`` counts changes of its plan.
    Sizes in bytes; null is "the host could not say".
    """

    class Status(models.TextChoices):
        PENDING_CONFIRMATION = "pending_confirmation", _("Waiting for confirmation")
        ACTIVE = "active", _("Active")
        DRAINING = "draining", _("Draining")
        QUARANTINED = "quarantined", _("Quarantined")
        RETIRED = "retired", _("Retired")
        REVOKED = "revoked", _("Revoked")

    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="machines")
    name = models.CharField(max_length=128)
    """The host's own at first; its owner may give it another. Nobody else sees it."""
    labels = models.JSONField(default=list, blank=True)
    """The owner's own words for it (a site, a rack, a contract), in order; nobody else sees them either."""
    status = models.CharField(max_length=24, choices=Status, default=Status.PENDING_CONFIRMATION)
    status_reason = models.CharField(max_length=200, blank=True)
    simulated = models.BooleanField(default=False)
    country = models.CharField(max_length=2)
    region = models.CharField(max_length=24)
    boot_id = models.CharField(max_length=64)
    sequence = models.BigIntegerField(default=0)
    agent_version = models.CharField(max_length=32)
    plan_version = models.BigIntegerField(default=0)
    host = models.JSONField(default=dict)
    ram_bytes = models.BigIntegerField(null=True, blank=True)
    cpu_count = models.PositiveIntegerField(null=True, blank=True)
    disk_total_bytes = models.BigIntegerField(null=True, blank=True)
    driver_version = models.CharField(max_length=64, blank=True)
    cuda_version = models.CharField(max_length=64, blank=True)
    network_down_mbps = models.PositiveIntegerField(null=True, blank=True)
    network_up_mbps = models.PositiveIntegerField(null=True, blank=True)
    """As last measured with a benchmark."""
    shortfalls = models.JSONField(default=list, blank=True, db_default=NOTHING)
    """Codes (providers.shortfalls) of what is well below the application; a reviewer looks at them."""
    shortfalls_accepted = models.JSONField(default=list, blank=True, db_default=NOTHING)
    """Codes that a reviewer has looked at and let pass."""
    degraded = models.JSONField(default=list)
    """Reason codes (agent_protocol.reasons.DEGRADATIONS) of the last session record."""
    enrolled_at = models.DateTimeField()
    enrol_key = models.UUIDField(unique=True)
    """The agent's idempotency key: the same one again is the same machine."""
    enrol_token = models.ForeignKey("providers.EnrolmentToken", on_delete=models.PROTECT, related_name="machines")
    confirmed_at = models.DateTimeField(null=True, blank=True)
    inventory_digest = models.CharField(max_length=64, blank=True)
    inventory_at = models.DateTimeField(null=True, blank=True)
    rotate_wanted_at = models.DateTimeField(null=True, blank=True)
    """Credentials older than this are to be changed now, not after their thirty days."""
    clock_skew_s = models.IntegerField(null=True, blank=True)
    """By how many seconds the host's clock is behind ours (ahead: negative); null while that is of no concern."""

    class Meta:
        indexes = [models.Index(fields=["provider", "status"], name="providers_machine_provider")]

    def __str__(self) -> str:
        return f"{self.name} ({self.pk})"


class MachineCredential(BaseModel):
    """What a machine proves itself with. The agent made the secret; this is its SHA-256."""

    machine = models.ForeignKey(Machine, on_delete=models.PROTECT, related_name="credentials")
    secret_hash = models.BinaryField(max_length=32, unique=True)
    enrol_key = models.UUIDField(null=True, blank=True, unique=True)
    """The idempotency key of the new enrolment that brought it; null for the first one's and for changed credentials."""
    used_at = models.DateTimeField(null=True, blank=True)
    """When it first opened a sync; until then its predecessor works too."""
    revoked_at = models.DateTimeField(null=True, blank=True)
    replaced = models.BooleanField(default=False, db_default=False)
    """Revoked because a newer one was used, not because the machine was shut out."""

    def __str__(self) -> str:
        return f"credential of {self.machine_id}"
