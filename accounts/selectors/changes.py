from __future__ import annotations

from datetime import datetime

from accounts.models import AccountChange, Party
from accounts.selectors.parties import party_contacts


def change_latest(party: Party) -> AccountChange | None:
    """The last time that something about the log-in of one of the party's owners was changed."""
    owners = party_contacts(party)
    return AccountChange.objects.filter(user__in=owners).order_by("-created_at").first()


def former_addresses(party: Party, *, since: datetime) -> list[str]:
    """Mail addresses that were an owner's at ``since`` or later, and no longer are."""
    owners = party_contacts(party)
    given_up = AccountChange.objects.filter(user__in=owners, created_at__gte=since).exclude(former_email="")
    return sorted(set(given_up.values_list("former_email", flat=True)) - {owner.email for owner in owners})
