"""Opening the books' accounts: each (owner, kind, asset) once, whoever asks first."""

from __future__ import annotations

from accounts.models import Party
from billing.models import USDC, Account


def account_open(*, kind: str, owner: Party | None = None, asset: str = USDC) -> Account:
    """The account of this owner (None: the house), kind and asset; opened at its first use."""
    found = Account.objects.filter(owner=owner, kind=kind, asset=asset).first()
    if found is not None:
        return found
    live = kind in Account.LIVE_KINDS and owner is not None
    # A twin may open it at the same moment: its row counts, ours is dropped.
    Account.objects.bulk_create([Account(owner=owner, kind=kind, asset=asset, live=live)], ignore_conflicts=True)
    return Account.objects.get(owner=owner, kind=kind, asset=asset)
