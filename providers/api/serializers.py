from __future__ import annotations

from rest_framework import serializers


class GpuSerializer(serializers.Serializer):
    id = serializers.UUIDField()
    uuid = serializers.CharField()
    model = serializers.SlugRelatedField(slug_field="slug", read_only=True, allow_null=True)  # type: ignore[var-annotated]
    reported_name = serializers.CharField()
    memory_bytes = serializers.IntegerField(allow_null=True)
    status = serializers.CharField()
    reason = serializers.CharField()
    health = serializers.CharField()
    last_seen_at = serializers.DateTimeField()


class MachineSerializer(serializers.Serializer):
    id = serializers.UUIDField()
    name = serializers.CharField()
    status = serializers.CharField()
    simulated = serializers.BooleanField()
    country = serializers.CharField()
    region = serializers.CharField()
    agent_version = serializers.CharField()
    driver_version = serializers.CharField()
    cuda_version = serializers.CharField()
    cpu_count = serializers.IntegerField(allow_null=True)
    ram_bytes = serializers.IntegerField(allow_null=True)
    disk_total_bytes = serializers.IntegerField(allow_null=True)
    enrolled_at = serializers.DateTimeField()
    gpus = GpuSerializer(many=True)


class MachinePageSerializer(serializers.Serializer):
    """One page of a fleet; ``next_cursor`` is null on the last one."""

    machines = MachineSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)
