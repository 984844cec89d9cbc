"""Who says that a payee may be paid. Pluggable: production names its provider, a local list ships for development."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from accounts.models import AccountChange, Party
from accounts.selectors import change_latest
from billing.models import Payout
from billing.selectors.balances import balance_of, payable_of
from billing.selectors.freezes import freeze_of, hold_of
from billing.selectors.policies import policy_value

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


def held_until(change: AccountChange, now: datetime) -> datetime:
    """Who holds a log-in since a moment ago waits as long as a new destination does."""
    return change.created_at + timedelta(seconds=policy_value("destination_cool_down_seconds", now))


def payee_obstacle(payout: Payout, now: datetime) -> str | None:
    """Just before money leaves, by whichever rail: what was true of the payee when it was planned, again. None: clear."""
    if payout.party.status != Party.Status.ACTIVE:
        return f"the payee is {payout.party.status}"
    if payout.destination.usable_from > now:
        return "the destination is cooling down"
    if freeze_of(payout.party) is not None:
        return "the payee said that a change of destination was not theirs: staff have to clear it"
    hold = hold_of(payout.party)
    if hold is not None:
        return f"held: {hold.reason}"
    change = change_latest(payout.party)
    if change is not None and held_until(change, now) > now:
        return f"{change.get_what_display()} of the payee changed: paid again from {held_until(change, now):%Y-%m-%d %H:%M} on"
    if payable_of(payout.party) < 0:
        return "the payee has a debt"
    if payout.is_withdrawal and balance_of(payout.party).balance_micro < 0:
        return "the customer's balance is below zero: what is withdrawn has been used meanwhile"
    return screening_obstacle(party=payout.party, address=payout.address, now=now)
