"""People and parties, to look at. Rights are not editable here; a party's status moves through its service."""

from __future__ import annotations

from django.contrib import admin

from accounts.models import Mail, Notification, Party, User
from core.admin import ReadOnlyAdmin


@admin.register(User)
class UserAdmin(ReadOnlyAdmin):
    list_display = ("email", "name", "is_active", "is_staff", "created_at")
    list_filter = ("is_active", "is_staff")
    search_fields = ("email", "name")
    ordering = ("-created_at",)
    fields = ("id", "email", "name", "language", "time_zone", "is_active", "is_staff", "created_at", "last_login")


@admin.register(Party)
class PartyAdmin(ReadOnlyAdmin):
    list_display = ("handle", "kind", "status", "created_at")
    list_filter = ("kind", "status")
    search_fields = ("handle", "members__user__email")
    ordering = ("-created_at",)
    fields = ("id", "handle", "kind", "status", "created_at")


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    list_display = ("subject", "user", "kind", "created_at")
    list_filter = ("kind",)
    search_fields = ("user__email", "subject")
    ordering = ("-id",)
    list_select_related = ("user",)
    fields = ("id", "user", "kind", "subject", "url", "created_at", "read_at", "mail")
    """Not the body: what concerns a person is theirs to read."""


@admin.register(Mail)
class MailAdmin(ReadOnlyAdmin):
    list_display = ("to", "created_at", "sent_at", "attempts", "due_at")
    search_fields = ("to",)
    ordering = ("-created_at",)
    fields = ("id", "to", "created_at", "sent_at", "attempts", "due_at")
