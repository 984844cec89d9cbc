"""What was changed about a log-in, remembered for those who have to be careful afterwards (billing holds payouts)."""

from __future__ import annotations

from datetime import datetime

from accounts.models import AccountChange, User


def account_change_record(*, user: User, what: str, former_email: str = "", now: datetime) -> AccountChange:
    """Remember a change of e-mail address, of the password by a reset, or of the second factor."""
    return AccountChange.objects.create(user=user, what=what, former_email=former_email.lower(), created_at=now)
