"""Opening the books' accounts: each (owner, kind, asset) once, whoever asks first."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

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


def accounts_open(wanted: Iterable[tuple[Party | None, str]]) -> dict[tuple[UUID | None, str], Account]:
    """Many USDC accounts at once, by (owner's id or None, kind): one query when all are there."""
    owners = {(None if owner is None else owner.pk, kind): owner for owner, kind in wanted}
    found = _find(owners)
    for key in owners.keys() - found.keys():
        found[key] = account_open(kind=key[1], owner=owners[key])
    return found


def _find(owners: dict[tuple[UUID | None, str], Party | None]) -> dict[tuple[UUID | None, str], Account]:
    kinds = {kind for _, kind in owners}
    theirs = Account.objects.filter(asset=USDC, kind__in=kinds, owner__in={key for key, _ in owners if key is not None})
    house = Account.objects.filter(asset=USDC, kind__in=kinds, owner__isnull=True)
    found = {(account.owner_id, account.kind): account for account in (theirs | house)}
    return {key: account for key, account in found.items() if key in owners}
