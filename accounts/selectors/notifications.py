from __future__ import annotations

from django.db.models import QuerySet

from accounts.models import Notification, User


def inbox_of(user: User) -> QuerySet[Notification]:
    """A user's messages, newest first."""
    return Notification.objects.filter(user=user).order_by("-id")


def unread_count(user: User, *, stop_at: int = 100) -> int:
    """How many messages are unread, counted up to ``stop_at``: a badge needs no more."""
    return Notification.objects.filter(user=user, read_at__isnull=True)[:stop_at].count()
