from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from core.models import BaseModel

HOLD_PREFIX = "hold:rental:"
CREDIT_PREFIX = "credit:attempt:"
"""How holds and service credits are named in billing: the rental's, the attempt's id follows."""


class Rental(BaseModel):
    """The agreement behind one attempt: who pays whom which rate for which GPUs. Rate and fee are fixed for its life.

    ``started_at``: when the container ran, by server time; null until then. ``billed_seconds`` and ``charged_micro`` are
    what the ledger has; holds so far cover charges up to ``covered_micro`` (cumulative). ``settled_at``: nothing more comes.
    """

    attempt = models.OneToOneField("marketplace.Attempt", on_delete=models.PROTECT, related_name="rental")
    customer = models.ForeignKey("accounts.Party", on_delete=models.PROTECT, related_name="rentals")
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="rentals")
    gpu_model = models.ForeignKey("providers.GpuModel", on_delete=models.PROTECT, related_name="+")
    gpus = models.PositiveSmallIntegerField()
    rate_micro = models.BigIntegerField()
    fee_bps = models.PositiveSmallIntegerField()
    covered_micro = models.BigIntegerField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    billed_seconds = models.PositiveBigIntegerField(default=0)
    charged_micro = models.BigIntegerField(default=0)
    credited_micro = models.BigIntegerField(default=0)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(rate_micro__gt=0, gpus__gt=0, charged_micro__gte=0, credited_micro__lte=F("charged_micro")),
                name="marketplace_rental_amounts",
            ),
            models.CheckConstraint(
                condition=Q(settled_at__isnull=True) | Q(ended_at__isnull=False), name="marketplace_rental_settled"
            ),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(settled_at__isnull=True), name="marketplace_rental_open"),
            models.Index(fields=["provider", "-id"], name="marketplace_rental_provider"),
        ]

    def __str__(self) -> str:
        return f"rental {self.pk}"

    @property
    def hold_source(self) -> str:
        """The name of its hold in billing."""
        return f"{HOLD_PREFIX}{self.pk}"


class RentalGpu(models.Model):
    """A GPU of a rental, in the order in which charges are split."""

    id = models.BigAutoField(primary_key=True)
    rental = models.ForeignKey(Rental, on_delete=models.PROTECT, related_name="rental_gpus")
    gpu = models.ForeignKey("providers.Gpu", on_delete=models.PROTECT, related_name="rental_gpus")

    class Meta:
        verbose_name = "rental GPU"
        constraints = [models.UniqueConstraint(fields=["rental", "gpu"], name="marketplace_rentalgpu_once")]

    def __str__(self) -> str:
        return f"{self.gpu_id} in {self.rental_id}"


class Charge(models.Model):
    """Seconds of a rental that the ledger was told about, once. Append-only; ``source`` is the transfer's."""

    id = models.BigAutoField(primary_key=True)
    rental = models.ForeignKey(Rental, on_delete=models.PROTECT, related_name="charges")
    source = models.CharField(max_length=120, unique=True)
    from_seconds = models.PositiveBigIntegerField()
    to_seconds = models.PositiveBigIntegerField()
    amount_micro = models.BigIntegerField()
    posted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rental", "from_seconds"], name="marketplace_charge_once"),
            models.CheckConstraint(
                condition=Q(to_seconds__gt=F("from_seconds"), amount_micro__gte=0), name="marketplace_charge_amount"
            ),
        ]

    def __str__(self) -> str:
        return self.source
