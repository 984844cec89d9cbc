from __future__ import annotations

from typing import Any

from rest_framework import serializers

from billing.api.serializers import PayoutSerializer


class GpuEarningsSerializer(serializers.Serializer[Any]):
    gpu_id = serializers.UUIDField()
    gpu_model = serializers.CharField()
    amount_micro = serializers.IntegerField()


class ModelEarningsSerializer(serializers.Serializer[Any]):
    gpu_model = serializers.CharField()
    gpus = serializers.IntegerField()
    amount_micro = serializers.IntegerField()


class DayEarningsSerializer(serializers.Serializer[Any]):
    day = serializers.DateField()
    amount_micro = serializers.IntegerField()


class MaturingSerializer(serializers.Serializer[Any]):
    """``amount_micro`` becomes payable on the UTC day ``on``."""

    on = serializers.DateField()
    amount_micro = serializers.IntegerField()


class ModelFactorsSerializer(serializers.Serializer[Any]):
    """``suggested_micro`` is null under five providers; ``place`` while nothing of the model is shown in search."""

    gpu_model = serializers.CharField(source="model.slug")
    rate_micro = serializers.IntegerField(allow_null=True)
    suggested_micro = serializers.IntegerField(allow_null=True)
    place = serializers.IntegerField(allow_null=True)
    rivals = serializers.IntegerField()
    rented = serializers.IntegerField()
    offered = serializers.IntegerField()


class FactorsSerializer(serializers.Serializer[Any]):
    """Score and uptime in percent, null while unknown; hours are GPU-hours of the coming week."""

    score = serializers.DecimalField(max_digits=6, decimal_places=3, allow_null=True)
    uptime = serializers.DecimalField(max_digits=6, decimal_places=3, allow_null=True)
    offered_hours = serializers.IntegerField()
    possible_hours = serializers.IntegerField()
    models = ModelFactorsSerializer(many=True)


class EarningsSerializer(serializers.Serializer[Any]):
    """Micro-USDC after the fee, in [since, until) UTC days; the parts add up to ``total_micro``."""

    since = serializers.DateField()
    until = serializers.DateField()
    total_micro = serializers.IntegerField()
    by_gpu = GpuEarningsSerializer(many=True)
    by_model = ModelEarningsSerializer(many=True)
    by_day = DayEarningsSerializer(many=True)
    cycle = serializers.CharField()
    period_start = serializers.DateField()
    period_end = serializers.DateField()
    accruing_micro = serializers.IntegerField(help_text="Of jobs that run now, not in the books yet.")
    jobs_running = serializers.IntegerField()
    pending_micro = serializers.IntegerField()
    maturing = MaturingSerializer(many=True)
    payable_micro = serializers.IntegerField()
    minimum_micro = serializers.IntegerField()
    in_flight_micro = serializers.IntegerField()
    next_payout_on = serializers.DateField()
    why_not_yet = serializers.ListField(child=serializers.CharField())
    factors = FactorsSerializer()


class PayoutPageSerializer(serializers.Serializer[Any]):
    """One page; ``next_cursor`` is null on the last one."""

    payouts = PayoutSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class HistoryRowSerializer(serializers.Serializer[Any]):
    """``what``: in words; ``of``: the job's name, the receipt's number or why it was adjusted, empty where there is none."""

    at = serializers.DateTimeField()
    kind = serializers.CharField()
    what = serializers.CharField()
    of = serializers.CharField()
    job_id = serializers.UUIDField(allow_null=True)
    amount_micro = serializers.IntegerField()


class HistoryPageSerializer(serializers.Serializer[Any]):
    """One page; ``next_cursor`` is null on the last one."""

    history = HistoryRowSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)
