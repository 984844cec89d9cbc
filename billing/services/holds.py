"""Holds: money set aside. Locks are always taken in the order account, hold."""

from __future__ import annotations

from datetime import datetime

from django.db import connection, transaction

from accounts.models import Party
from billing.models import Account, Hold
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import SourceTaken
from core.errors import Conflict, InsufficientFunds, Invalid, NotFound
from core.locks import lock_rows
from core.money import format_usdc
from core.transactions import joined

_SET_ASIDE = """
UPDATE billing_account SET held = held + %(more)s WHERE id = %(account)s AND balance - held - %(more)s >= min_balance
"""


def hold_place(
    *, party: Party, amount_micro: int, source: str, now: datetime, kind: str = Account.Kind.CUSTOMER
) -> Hold:
    """Set ``amount_micro`` of the party's customer balance (or another live account's) aside under ``source``.

    Same source, same amount: the earlier hold, whatever became of it. Raises InsufficientFunds (field amount), SourceTaken
    (another amount or party under this source), Invalid (not positive).
    """
    if amount_micro <= 0:
        raise Invalid.field("amount", found=amount_micro, allowed="a positive number of micro-USDC")
    account = account_open(kind=kind, owner=party)
    earlier = _earlier(source, account, amount_micro)
    if earlier is not None:
        return earlier
    hold = Hold(source=source, account=account, placed_micro=amount_micro, amount_micro=amount_micro, created_at=now)
    with joined():
        try:
            _set_aside(account, amount_micro)
        except InsufficientFunds:
            # We waited for the account's row: what took the room may be our own twin, and its hold is our answer.
            if (twins := _earlier(source, account, amount_micro)) is None:
                raise
            return twins
        # Our row, or that of a twin that was faster: then what we set aside goes back.
        Hold.objects.bulk_create([hold], ignore_conflicts=True)
        try:
            placed = _earlier(source, account, amount_micro)
        except SourceTaken:
            _give_back(account.pk, amount_micro)  # the caller's transaction may go on without us
            raise
        if placed is None:
            raise AssertionError("a hold that was just written is there")
        if placed.pk != hold.pk:
            _give_back(account.pk, amount_micro)
    return placed


def hold_extend(*, source: str, amount_micro: int, now: datetime) -> Hold:
    """Fill an open hold up *to* ``amount_micro`` (not by: doing it twice is doing it once). It never shrinks.

    Raises InsufficientFunds (field amount), NotFound, Conflict (it is closed); the hold then stays as it was.
    """
    with transaction.atomic():
        hold, account = _locked(source)
        if hold.state != Hold.State.OPEN:
            raise Conflict(f"hold: it is {hold.state} and cannot be extended.")
        more = amount_micro - hold.amount_micro
        if more > 0:
            _set_aside(account, more)
            Hold.objects.filter(pk=hold.pk).update(amount_micro=amount_micro)
            hold.amount_micro = amount_micro
    return hold


def hold_release(*, source: str, now: datetime) -> Hold | None:
    """Give back what is left of a hold. A closed hold stays as it is; a source that never was is None."""
    if not Hold.objects.filter(source=source).exists():
        return None
    with transaction.atomic():
        hold, account = _locked(source)
        if hold.state != Hold.State.OPEN:
            return hold
        state = Hold.State.RELEASED if hold.amount_micro else Hold.State.CAPTURED
        Hold.objects.filter(pk=hold.pk).update(state=state, closed_at=now)
        _give_back(account.pk, hold.amount_micro)
    hold.state, hold.closed_at = state, now
    return hold


def _earlier(source: str, account: Account, amount_micro: int) -> Hold | None:
    found = Hold.objects.filter(source=source).first()
    if found is not None and (found.account_id, found.placed_micro) != (account.pk, amount_micro):
        raise SourceTaken(f"{source} holds another amount or account.")
    return found


def _locked(source: str) -> tuple[Hold, Account]:
    account_id = Hold.objects.filter(source=source).values_list("account_id", flat=True).first()
    if account_id is None:
        raise NotFound(f"There is no hold {source}.")
    (account,) = lock_rows(Account.objects.all(), [account_id])
    return Hold.objects.get(source=source), account


def _set_aside(account: Account, more: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SET_ASIDE, {"account": account.pk, "more": more})
        if cursor.rowcount == 1:
            return
    account.refresh_from_db()
    available = account.balance - account.held - account.min_balance
    raise InsufficientFunds(
        "The available balance does not cover this.",
        fields={"amount": f"Found {format_usdc(more)} USDC; available: {format_usdc(available)} USDC."},
    )


def _give_back(account_id: int, amount_micro: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE billing_account SET held = held - %s WHERE id = %s", [amount_micro, account_id])
