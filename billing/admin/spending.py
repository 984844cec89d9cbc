"""Spend limits and frozen earnings, to look at."""

from __future__ import annotations

from django.contrib import admin

from billing.models import EarningFreeze, SpendLimit
from core.admin import ReadOnlyAdmin
from core.money import format_usdc


@admin.register(SpendLimit)
class SpendLimitAdmin(ReadOnlyAdmin):
    """Who allowed what, and when; the newest of a period counts."""

    list_display = ("created_at", "party", "period", "usdc", "set_by")
    list_filter = ("period",)
    search_fields = ("party__handle",)
    list_select_related = ("party", "set_by")
    ordering = ("-created_at",)
    fields = ("id", "party", "period", "amount_micro", "set_by", "created_at")

    @admin.display(description="USDC", ordering="amount_micro")
    def usdc(self, row: SpendLimit) -> str:
        return "–" if row.amount_micro is None else format_usdc(row.amount_micro)


@admin.register(EarningFreeze)
class EarningFreezeAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "source", "provider", "rental_id", "thawed_at")
    search_fields = ("source", "provider__handle", "rental_id")
    list_select_related = ("provider",)
    ordering = ("-created_at",)
    fields = ("id", "source", "provider", "rental_id", "created_at", "thawed_at")
