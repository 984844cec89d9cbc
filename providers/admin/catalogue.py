"""The catalogue is data that staff keep: models, their figures, and the names NVML has for them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline

from providers.models import GpuModel, GpuModelAlias


class AliasInline(TabularInline):
    model = GpuModelAlias
    fields = ("nvml_name",)
    extra = 1


@admin.register(GpuModel)
class GpuModelAdmin(ModelAdmin):
    list_display = ("name", "slug", "family", "memory_gb", "memory_mib", "supported")
    list_filter = ("supported", "family")
    search_fields = ("name", "slug", "aliases__nvml_name")
    fields = (
        "slug",
        "name",
        "family",
        "memory_gb",
        "memory_mib",
        "memory_ecc_mib",
        "fp32_tflops_peak",
        "fp16_tflops_peak",
        "bandwidth_gbps_peak",
        "fp32_tflops_reference",
        "fp16_tflops_reference",
        "bandwidth_gbps_reference",
        "supported",
    )
    inlines = (AliasInline,)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # A card that was ever here keeps its model: take it off the application form instead (supported).
        return False
