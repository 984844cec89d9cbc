"""Reliability in the operator's admin: stored events and what follows from them, all read-only."""

from __future__ import annotations

from django.contrib import admin

from core.admin import ReadOnlyAdmin
from reliability.models import Flip, Incident, MachineHealth, OnlineInterval, Outcome, PlatformOutage, Score


@admin.register(MachineHealth)
class MachineHealthAdmin(ReadOnlyAdmin):
    list_display = ["machine", "state", "state_since", "last_seen_at"]
    list_filter = ["state"]
    list_select_related = ["machine"]
    search_fields = ["machine__name", "machine__id"]
    fields = ["machine", "state", "state_since", "last_seen_at", "offline_due_at", "boot_id", "telemetry"]


@admin.register(OnlineInterval)
class OnlineIntervalAdmin(ReadOnlyAdmin):
    list_display = ["machine", "started_at", "ended_at"]
    list_select_related = ["machine"]
    search_fields = ["machine__name", "machine__id"]
    fields = ["machine", "started_at", "ended_at"]


@admin.register(Flip)
class FlipAdmin(ReadOnlyAdmin):
    list_display = ["machine", "to", "at", "noticed_at"]
    list_filter = ["to"]
    list_select_related = ["machine"]
    search_fields = ["machine__name", "machine__id"]
    fields = ["machine", "to", "at", "noticed_at"]


@admin.register(PlatformOutage)
class PlatformOutageAdmin(ReadOnlyAdmin):
    list_display = ["started_at", "ended_at", "cause"]
    fields = ["started_at", "ended_at", "cause"]


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin):
    list_display = ["source", "reason", "owner", "machine", "weight_seconds", "at"]
    list_filter = ["owner", "reason"]
    list_select_related = ["machine"]
    search_fields = ["source", "machine__name", "provider__party__handle"]
    fields = ["source", "provider", "machine", "gpu", "reason", "owner", "weight_seconds", "at"]


@admin.register(Outcome)
class OutcomeAdmin(ReadOnlyAdmin):
    list_display = ["source", "completed", "machine", "gpu_seconds", "at"]
    list_filter = ["completed"]
    list_select_related = ["machine"]
    search_fields = ["source", "machine__name", "provider__party__handle"]
    fields = ["source", "provider", "machine", "completed", "gpu_seconds", "at"]


@admin.register(Score)
class ScoreAdmin(ReadOnlyAdmin):
    list_display = ["subject_kind", "subject_id", "s", "u", "c", "b", "evidence_seconds", "computed_at"]
    list_filter = ["subject_kind"]
    search_fields = ["subject_id", "provider__party__handle"]
    fields = [
        "subject_kind", "subject_id", "provider", "s", "u", "c", "b", "evidence_seconds", "formula_version", "computed_at",
        "announced_s",
    ]  # fmt: skip
