from __future__ import annotations

from accounts.models import Party
from billing.models import DestinationFreeze, PayoutHold


def freeze_of(party: Party) -> DestinationFreeze | None:
    """The freeze that keeps a party from being paid, if there is one."""
    return DestinationFreeze.objects.filter(party=party, cleared_at__isnull=True).first()


def hold_of(party: Party) -> PayoutHold | None:
    """What somebody above billing has against paying a party now."""
    return PayoutHold.objects.filter(party=party, released_at__isnull=True).order_by("created_at").first()


def freezes_open() -> int:
    """How many parties wait for staff to clear a freeze."""
    return DestinationFreeze.objects.filter(cleared_at__isnull=True).count()
