from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from core.models import BaseModel


class Gpu(BaseModel):
    """One card in one machine, known by its NVML UUID. ``model`` is null while nobody knows what it is.

    Only ``active`` cards are offered. Laws: a machine has a UUID once, and a UUID is active in one machine at a time.
    """

    class Status(models.TextChoices):
        ACTIVE = "active", _("Active")
        NEEDS_REVIEW = "needs_review", _("Needs review")
        UNAVAILABLE = "unavailable", _("Unavailable")
        RETIRED = "retired", _("Retired")

    class Reason(models.TextChoices):
        """Why a card is not offered; empty for an active one."""

        NONE = "", ""
        UNKNOWN_MODEL = "unknown_model", _("The catalogue does not know this card.")
        MEMORY_MISMATCH = "memory_mismatch", _("The memory does not fit the card's name.")
        MEMORY_UNKNOWN = "memory_unknown", _("The memory of the card could not be read.")
        NOT_APPROVED = "not_approved", _("The approved application has no such card.")
        COUNTRY = "country", _("Approved for another country than the one this machine stands in.")
        OVER_APPROVED = "over_approved", _("More cards of this model than were approved.")
        DECLINED = "declined", _("The request to add this card was declined.")
        UUID_ELSEWHERE = "uuid_elsewhere", _("Another machine reports the same card.")
        IDENTITY = "identity", _("Another machine claims this card, and this one could not prove that it has it.")
        MIG = "mig", _("MIG is on; only whole cards are offered.")
        GONE = "gone", _("The machine no longer reports this card.")
        LOST = "lost", _("The card fell off the bus.")
        ERROR = "error", _("The card reports an error.")
        MACHINE_RETIRED = "machine_retired", _("The machine was retired.")
        MOVED = "moved", _("The card was moved to another machine.")
        REPLACED = "replaced", _("Another card took its place.")
        RELEASED = "released", _("Its owner gave it up.")

    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="gpus")
    uuid = models.CharField(max_length=96)
    model = models.ForeignKey(
        "providers.GpuModel", on_delete=models.PROTECT, related_name="gpus", null=True, blank=True
    )
    reported_name = models.CharField(max_length=128, blank=True)
    memory_bytes = models.BigIntegerField(null=True, blank=True)
    status = models.CharField(max_length=16, choices=Status)
    reason = models.CharField(max_length=24, choices=Reason, blank=True, default="")
    accepted = models.BooleanField(default=False)
    """A reviewer accepted this card by hand: the approved quantities no longer hold it back."""
    requested_at = models.DateTimeField(null=True, blank=True)
    """When the owner last asked to add this held card to the approved fleet."""
    request_note = models.TextField(max_length=1000, blank=True, db_default="")
    declined = models.TextField(max_length=2000, blank=True, db_default="")
    """Why the last request was declined; empty when it was not."""
    health = models.CharField(max_length=16)
    """As the agent reports it: ok, lost, error or unknown."""
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    details = models.JSONField(default=dict)

    class Meta:
        verbose_name = "GPU"
        constraints = [
            models.UniqueConstraint(
                fields=["machine", "uuid"], condition=~models.Q(status="retired"), name="providers_gpu_once"
            ),
            models.UniqueConstraint(
                fields=["uuid"], condition=models.Q(status="active"), name="providers_gpu_one_active"
            ),
            models.CheckConstraint(
                condition=~models.Q(status="active") | models.Q(model__isnull=False, reason=""),
                name="providers_gpu_active_known",
            ),
        ]
        indexes = [models.Index(fields=["uuid"], name="providers_gpu_uuid")]

    def __str__(self) -> str:
        return f"{self.reported_name or 'GPU'} {self.uuid}"

    @property
    def slot(self) -> str | None:
        """The PCI address at which it was reported last; null when it did not say."""
        return self.details.get("pci_bus_id")
