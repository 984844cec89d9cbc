from __future__ import annotations

from django.db import models
from django.db.models import Q

from core.models import BaseModel


class Listing(BaseModel):
    """One machine × one GPU model: what it has, what it asks, and whether it is shown or the one reason why not.

    Derived from the apps below by ``services.listing_refresh``; nobody else writes it. Rates in micro-USDC per GPU-hour.
    ``gpus_total`` counts GPUs that may be rented (active, benchmark passed), ``gpus_free`` those without a claim.
    Null is unknown: a provider without a score, a machine without a verdict, a window that never closes.
    """

    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="listings")
    gpu_model = models.ForeignKey("providers.GpuModel", on_delete=models.PROTECT, related_name="listings")
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="listings")
    rate_micro = models.BigIntegerField(null=True)
    gpus_total = models.PositiveSmallIntegerField(default=0)
    gpus_free = models.PositiveSmallIntegerField(default=0)
    visible = models.BooleanField(default=False)
    hidden_reason = models.CharField(max_length=32, blank=True, default="")
    hidden_detail = models.JSONField(default=list)
    reliability = models.DecimalField(max_digits=6, decimal_places=3, null=True)
    evidence_hours = models.PositiveIntegerField(null=True)
    health_percent = models.DecimalField(max_digits=6, decimal_places=2, null=True)
    performance_index = models.DecimalField(max_digits=8, decimal_places=2, null=True)
    simulated = models.BooleanField(default=False)
    country = models.CharField(max_length=2)
    region = models.CharField(max_length=24)
    tier = models.CharField(max_length=12)
    commitment_months = models.PositiveSmallIntegerField(default=0)
    disk_gb = models.PositiveIntegerField(null=True)
    open_until = models.DateTimeField(null=True)
    recheck_at = models.DateTimeField(null=True)
    """When it may open or close by itself; a sweep refreshes what is due."""
    rank = models.PositiveIntegerField(default=0)
    """See ranking.stored. 0 until there is a rate."""
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["machine", "gpu_model"], name="marketplace_listing_once"),
            models.CheckConstraint(
                condition=Q(gpus_free__lte=models.F("gpus_total")), name="marketplace_listing_free_of_total"
            ),
            models.CheckConstraint(
                condition=Q(visible=True, hidden_reason="", rate_micro__isnull=False)
                | (Q(visible=False) & ~Q(hidden_reason="")),
                name="marketplace_listing_visible_or_why",
            ),
        ]
        indexes = [
            models.Index(fields=["recheck_at"], condition=Q(recheck_at__isnull=False), name="marketplace_listing_due"),
            models.Index(fields=["provider", "gpu_model"], name="marketplace_listing_provider"),
        ]

    def __str__(self) -> str:
        return f"listing {self.pk}"


RENTABLE = Q(rentable=True)


class ListingIndex(models.Model):
    """One narrow row per listing with every filter and sort column; what search reads (architecture.md).

    Indexes are partial on ``rentable``, which changes with visibility, never with each rental: ``gpus_free`` is in no
    index, so taking a GPU updates this row in place. Unknown sorts last: -1 for reliability, the largest integer for
    price per performance (the Listing keeps null).
    """

    listing = models.OneToOneField(Listing, on_delete=models.CASCADE, primary_key=True, related_name="index")
    gpu_model = models.ForeignKey("providers.GpuModel", on_delete=models.PROTECT, related_name="+", db_index=False)
    rentable = models.BooleanField()
    gpus_free = models.PositiveSmallIntegerField()
    gpus_total = models.PositiveSmallIntegerField()
    rate_micro = models.BigIntegerField()
    per_performance = models.BigIntegerField()
    """Micro-USDC per GPU-hour and 100 points of the performance index."""
    reliability = models.DecimalField(max_digits=6, decimal_places=3)
    rank = models.PositiveIntegerField()
    country = models.CharField(max_length=2)
    region = models.CharField(max_length=24)
    tier = models.CharField(max_length=12)
    disk_gb = models.PositiveIntegerField(null=True)
    open_until = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "listing index"
        indexes = [
            models.Index(fields=["rank", "listing"], condition=RENTABLE, name="marketplace_index_rank"),
            models.Index(fields=["rate_micro", "listing"], condition=RENTABLE, name="marketplace_index_rate"),
            models.Index(fields=["per_performance", "listing"], condition=RENTABLE, name="marketplace_index_perf"),
            models.Index(fields=["reliability", "listing"], condition=RENTABLE, name="marketplace_index_score"),
            models.Index(fields=["gpu_model", "rank", "listing"], condition=RENTABLE, name="marketplace_index_m_rank"),
            models.Index(
                fields=["gpu_model", "rate_micro", "listing"], condition=RENTABLE, name="marketplace_index_m_rate"
            ),
            models.Index(
                fields=["gpu_model", "per_performance", "listing"], condition=RENTABLE, name="marketplace_index_m_perf"
            ),
            models.Index(
                fields=["gpu_model", "reliability", "listing"], condition=RENTABLE, name="marketplace_index_m_score"
            ),
            models.Index(
                fields=["country", "gpu_model", "rank", "listing"],
                condition=RENTABLE,
                name="marketplace_index_country",
            ),
            models.Index(
                fields=["region", "tier", "rank", "listing"], condition=RENTABLE, name="marketplace_index_region"
            ),
        ]

    def __str__(self) -> str:
        return f"index of {self.listing_id}"


class MarketPrice(BaseModel):
    """Quartiles of asking prices of a model in a region (empty: the world) as they stood from ``computed_at`` on.

    Dated rows: a new one only when a figure changed. Never under five providers (pricing.MEDIAN_PROVIDERS_MIN).
    """

    gpu_model = models.ForeignKey("providers.GpuModel", on_delete=models.PROTECT, related_name="+")
    region = models.CharField(max_length=24, blank=True)
    p25_micro = models.BigIntegerField(null=True)
    median_micro = models.BigIntegerField(null=True)
    p75_micro = models.BigIntegerField(null=True)
    providers = models.PositiveIntegerField()
    """How many voted; below five the figures are null: there is nothing to say any more."""
    computed_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["gpu_model", "region", "-computed_at"], name="marketplace_price_latest")]

    def __str__(self) -> str:
        return f"{self.gpu_model_id} {self.region or 'world'}: {self.median_micro}"
