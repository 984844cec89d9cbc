from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Sum

from accounts.models import Party
from billing.models import USDC, Account, BalanceCheckpoint, EarningLine, Payout, Posting


@dataclass(frozen=True, slots=True)
class Balance:
    """A customer's money, in micro-USDC. ``available`` may be negative: usage is never rolled back."""

    balance_micro: int
    held_micro: int

    @property
    def available_micro(self) -> int:
        return self.balance_micro - self.held_micro


def balance_of(party: Party) -> Balance:
    account = Account.objects.filter(owner=party, kind=Account.Kind.CUSTOMER, asset=USDC).first()
    return Balance(0, 0) if account is None else Balance(account.balance, account.held)


def payable_of(party: Party) -> int:
    """Matured earnings that are not on their way yet; negative: a debt that later earnings pay back."""
    return _live(party, Account.Kind.PROVIDER_PAYABLE)


def in_flight_of(party: Party) -> int:
    """What is reserved for payouts of earnings that are not settled."""
    return _open_payouts(party, withdrawals=False)


def withdrawing_of(party: Party) -> int:
    """What of a customer's own money is on its way back to it."""
    return _open_payouts(party, withdrawals=True)


def pending_of(party: Party) -> int:
    """Earnings that have not matured."""
    unmatured = EarningLine.objects.filter(provider=party, matured_at__isnull=True)
    return int(unmatured.aggregate(total=Sum("amount_micro"))["total"] or 0)


def house_balance(kind: str, asset: str = USDC) -> int:
    """A house account's balance: its last checkpoint and the postings since. It has no live balance."""
    account = Account.objects.filter(owner__isnull=True, kind=kind, asset=asset).first()
    if account is None:
        return 0
    last = BalanceCheckpoint.objects.filter(account=account).order_by("-posting_id").first()
    known, since = (0, 0) if last is None else (last.balance, last.posting_id)
    postings = Posting.objects.filter(account=account, id__gt=since)
    return known + int(postings.aggregate(total=Sum("amount"))["total"] or 0)


def _open_payouts(party: Party, *, withdrawals: bool) -> int:
    rows = Payout.objects.filter(party=party, status__in=Payout.OPEN, request_key__isnull=not withdrawals)
    return int(rows.aggregate(total=Sum("amount_micro"))["total"] or 0)


def _live(party: Party, kind: str) -> int:
    account = Account.objects.filter(owner=party, kind=kind, asset=USDC).first()
    return 0 if account is None else account.balance
