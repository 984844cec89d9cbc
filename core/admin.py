"""What the apps' admins share: evidence and money are looked at, never edited by a form."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline


class ReadOnly:
    """Nobody adds, changes or deletes by a form; for admins and inlines.

    ``unseen``: columns that no page of it shows and that may be megabytes a row; they stay in the database.
    """

    unseen: tuple[str, ...] = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)  # type: ignore[misc]
        return rows.defer(*self.unseen) if self.unseen else rows

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnly, ModelAdmin):
    """Staff with the view permission see it; what may be done to it is an action that calls a service."""

    list_per_page = 50
    show_full_result_count = False


class ReadOnlyInline(ReadOnly, TabularInline):
    """A page at a time: a payout run has ten thousand rows. ``beside``: what its columns follow, in the same query."""

    extra = 0
    can_delete = False
    per_page = 50
    ordering: tuple[str, ...] = ("pk",)
    beside: tuple[str, ...] = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return rows.select_related(*self.beside) if self.beside else rows
