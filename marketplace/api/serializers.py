"""What the API takes and gives. Amounts are micro-USDC integers, instants ISO 8601 in UTC, unknown is null."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from rest_framework import serializers

from core import clock
from marketplace import jobspec
from marketplace.jobspec import JobSpec
from marketplace.models import Attempt, Job, Listing
from marketplace.selectors import cost_of, reason_words


class ListingSerializer(serializers.ModelSerializer[Listing]):
    model = serializers.CharField(source="gpu_model.slug")
    model_name = serializers.CharField(source="gpu_model.name")
    memory_gb = serializers.IntegerField(source="gpu_model.memory_gb")
    provider = serializers.CharField(source="provider.party.handle")

    class Meta:
        model = Listing
        fields = [
            "id",
            "model",
            "model_name",
            "memory_gb",
            "provider",
            "tier",
            "country",
            "region",
            "rate_micro",
            "gpus_total",
            "gpus_free",
            "reliability",
            "evidence_hours",
            "health_percent",
            "performance_index",
            "open_until",
            "simulated",
        ]


class ListingPageSerializer(serializers.Serializer[Any]):
    listings = ListingSerializer(many=True)
    count = serializers.IntegerField(help_text="How many fit, counted up to 1,001.")
    next_cursor = serializers.CharField(allow_null=True)


class JobRequestSerializer(serializers.Serializer[Any]):
    """A job to run: on ``listing`` at the price seen, or by criteria."""

    image = serializers.CharField(max_length=512)
    command = serializers.ListField(child=serializers.CharField(allow_blank=True, trim_whitespace=False), default=list)
    environment = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), default=dict
    )
    secrets = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), default=dict, write_only=True
    )
    registry_username = serializers.CharField(
        allow_blank=True, trim_whitespace=False, default="", write_only=True, help_text="Of a private image's registry."
    )
    registry_password = serializers.CharField(
        allow_blank=True,
        trim_whitespace=False,
        default="",
        write_only=True,
        help_text="Its password or, better, a token that may only read. Stored encrypted, given to the machine for the pull "
        "of this image, deleted when the job ends.",
    )
    name = serializers.CharField(allow_blank=True, default="")
    gpu_count = serializers.IntegerField(default=1)
    listing = serializers.UUIDField(allow_null=True, default=None)
    gpu_model = serializers.CharField(allow_null=True, default=None, help_text="A model's slug; null: any.")
    max_rate_micro = serializers.IntegerField(help_text="The most you pay, in micro-USDC per GPU-hour.")
    min_reliability = serializers.DecimalField(max_digits=6, decimal_places=3, allow_null=True, default=None)
    region = serializers.CharField(allow_blank=True, default="")
    country = serializers.CharField(allow_blank=True, default="")
    disk_gb = serializers.IntegerField(default=jobspec.DISK_DEFAULT_GB)
    time_limit_s = serializers.IntegerField(default=jobspec.TIME_LIMIT_DEFAULT_S)
    disconnect_grace_s = serializers.IntegerField(default=jobspec.GRACE_DEFAULT_S)
    max_attempts = serializers.IntegerField(default=1)

    def spec(self) -> JobSpec:
        """The validated request as the service takes it."""
        data = dict(self.validated_data)
        reliability: Decimal | None = data.pop("min_reliability")
        return JobSpec(
            command=tuple(data.pop("command")),
            listing_id=data.pop("listing"),
            model_slug=data.pop("gpu_model") or None,
            min_reliability=reliability,
            **data,
        )


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    provider = serializers.CharField(source="provider.party.handle")
    model = serializers.CharField(source="rental.gpu_model.slug")
    rate_micro = serializers.IntegerField(source="rental.rate_micro")
    started_at = serializers.DateTimeField(source="rental.started_at", allow_null=True)
    billed_seconds = serializers.IntegerField(source="rental.billed_seconds")
    charged_micro = serializers.IntegerField(source="rental.charged_micro")
    credited_micro = serializers.IntegerField(source="rental.credited_micro")

    class Meta:
        model = Attempt
        fields = [
            "id",
            "number",
            "status",
            "provider",
            "model",
            "rate_micro",
            "created_at",
            "started_at",
            "ended_at",
            "reason",
            "exit_code",
            "billed_seconds",
            "charged_micro",
            "credited_micro",
            "log_bytes",
        ]


class JobSerializer(serializers.ModelSerializer[Job]):
    """A job without its secrets. ``cost_micro``: charged and accruing, less credits."""

    gpu_model = serializers.CharField(source="gpu_model.slug", allow_null=True, default=None)
    reason_text = serializers.SerializerMethodField()
    cost_micro = serializers.SerializerMethodField()
    attempts = AttemptSerializer(many=True)

    class Meta:
        model = Job
        fields = [
            "id",
            "name",
            "status",
            "reason",
            "reason_text",
            "waiting",
            "image",
            "command",
            "environment",
            "gpu_count",
            "gpu_model",
            "listing",
            "max_rate_micro",
            "min_reliability",
            "region",
            "country",
            "disk_gb",
            "time_limit_s",
            "disconnect_grace_s",
            "max_attempts",
            "queued_at",
            "cancel_requested_at",
            "ended_at",
            "cost_micro",
            "attempts",
        ]

    def get_reason_text(self, job: Job) -> str:
        return reason_words(job)

    def get_cost_micro(self, job: Job) -> int:
        return cost_of(job, now=self.context.get("now") or clock.now()).total_micro


class JobPageSerializer(serializers.Serializer[Any]):
    jobs = JobSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class LogSerializer(serializers.Serializer[Any]):
    text = serializers.CharField()
    next_offset = serializers.IntegerField(help_text="Bytes; ask from here for what follows.")
    total_bytes = serializers.IntegerField()
    dropped = serializers.BooleanField(help_text="Output beyond 16 MiB was not kept.")
    final = serializers.BooleanField(help_text="Nothing follows.")
