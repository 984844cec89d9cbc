"""What the apps' admins share: evidence and money are looked at, never edited by a form."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline


class ReadOnly:
    """Nobody adds, changes or deletes by a form; for admins and inlines."""

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
    extra = 0
    can_delete = False
