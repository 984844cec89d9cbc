"""Benchmarks in the operator's admin: everything is evidence and read-only, except new thresholds and closing a review."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from benchmarks import services
from benchmarks.models import Result, Run, Suite, Threshold, Verdict
from core import clock
from core.admin import ReadOnlyAdmin, ReadOnlyInline
from core.errors import DomainError


class ResultInline(ReadOnlyInline):
    model = Result
    fields = ["metric", "value"]


@admin.register(Suite)
class SuiteAdmin(ReadOnlyAdmin):
    list_display = ["version", "rounds", "time_limit_s", "valid_from"]
    fields = ["version", "rounds", "time_limit_s", "valid_from"]


@admin.register(Threshold)
class ThresholdAdmin(ModelAdmin):
    """A limit is changed by adding a row that is valid from an instant on."""

    list_display = ["name", "value", "suite", "valid_from", "reason"]
    list_filter = ["name"]
    fields = ["suite", "name", "value", "valid_from", "reason"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ["id", "gpu", "status", "trigger", "requested_at", "reported_at", "reason"]
    list_filter = ["status", "trigger"]
    list_select_related = ["gpu"]
    search_fields = ["id", "gpu__uuid", "machine__name"]
    date_hierarchy = "requested_at"
    inlines = [ResultInline]
    fields = [
        "gpu", "machine", "suite", "status", "reason", "trigger", "requested_by", "attempt", "requested_at", "not_before",
        "offered_at", "started_at", "lease_until", "reported_at", "ended_at", "driver_version", "simulated", "conditions",
    ]  # fmt: skip


@admin.register(Verdict)
class VerdictAdmin(ReadOnlyAdmin):
    list_display = ["gpu", "passed", "in_review", "meets_minimum", "health_percent", "performance_index", "decided_at"]
    list_filter = ["passed", "in_review"]
    list_select_related = ["gpu"]
    search_fields = ["gpu__uuid"]
    actions = ["review_close"]
    fields = [
        "gpu", "run", "passed", "in_review", "meets_minimum", "health_percent", "performance_index", "reasons", "simulated",
        "decided_at", "decided_by",
    ]  # fmt: skip

    @admin.action(description="Close the review: nothing is wrong", permissions=["review"])
    def review_close(self, request: HttpRequest, queryset: QuerySet[Verdict]) -> None:
        for verdict in queryset.select_related("gpu"):
            try:
                services.verdict_review_close(gpu=verdict.gpu, actor=request.user, now=clock.now())  # type: ignore[arg-type]
            except DomainError as error:
                messages.error(request, f"{verdict.gpu}: {error.message}")
            else:
                messages.success(request, f"{verdict.gpu}: the review is closed.")

    def has_review_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("benchmarks.change_verdict")
