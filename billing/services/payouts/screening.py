"""Who says that a payee may be paid. Pluggable: production names its provider, a local list ships for development."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from accounts.models import Party
from billing.models import Payout
from billing.selectors.balances import balance_of, payable_of

DENIED_FILE = "denied-addresses.txt"


class Screener(Protocol):
    def obstacle(self, *, party: Party, address: str, now: datetime) -> str | None:
        """None: clear. Else a sentence for staff. Asked again just before each signing, so an answer never grows old."""
        ...


class LocalListScreener:
    """Clear unless the address, or the party's id, stands in ``denied-addresses.txt`` of the data folder (one per line)."""

    def obstacle(self, *, party: Party, address: str, now: datetime) -> str | None:
        path = Path(settings.DATA_DIR) / DENIED_FILE
        denied = path.read_text().split() if path.exists() else []
        found = {address, str(party.pk)} & set(denied)
        return f"{sorted(found)[0]} stands in the local list of those who are not paid" if found else None


def screening_obstacle(*, party: Party, address: str, now: datetime) -> str | None:
    """The configured screener's answer; without a screener nobody is paid."""
    if not settings.PAYOUT_SCREENER:
        return "PAYOUT_SCREENER is not set: without a screener nothing is paid"
    screener: Screener = import_string(settings.PAYOUT_SCREENER)()
    return screener.obstacle(party=party, address=address, now=now)


def payee_obstacle(payout: Payout, now: datetime) -> str | None:
    """Just before money leaves, by whichever rail: what was true of the payee when it was planned, again. None: clear."""
    if payout.party.status != Party.Status.ACTIVE:
        return f"the payee is {payout.party.status}"
    if payout.destination.usable_from > now:
        return "the destination is cooling down"
    if payable_of(payout.party) < 0:
        return "the payee has a debt"
    if payout.is_withdrawal and balance_of(payout.party).balance_micro < 0:
        return "the customer's balance is below zero: what is withdrawn has been used meanwhile"
    return screening_obstacle(party=payout.party, address=payout.address, now=now)
