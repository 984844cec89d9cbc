from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from accounts.models import Party
from billing.models import Destination, Payout, Purpose
from billing.selectors.balances import balance_of, withdrawing_of
from billing.selectors.payouts import destination_of
from billing.selectors.policies import policy_value

CANCELLABLE = (Payout.Status.AWAITING_RELEASE, Payout.Status.READY, Payout.Status.BLOCKED)
"""Nothing is signed yet. (The database has the last word, whatever a page shows.)"""


@dataclass(frozen=True, slots=True)
class WithdrawalTerms:
    """What a customer can take back now, and on what terms, in micro-USDC. ``wallet`` None: none is proven."""

    available_micro: int
    """Balance less holds; nothing at all where that is below zero."""
    held_micro: int
    under_way_micro: int
    minimum_micro: int
    fee_micro: int
    wallet: Destination | None
    cooling: bool

    @property
    def cancellable(self) -> tuple[str, ...]:
        return CANCELLABLE

    @property
    def possible(self) -> bool:
        """Whether a request could be granted just now."""
        return self.wallet is not None and not self.cooling and self.available_micro >= self.minimum_micro


def withdrawal_terms(party: Party, now: datetime) -> WithdrawalTerms:
    """The terms that hold at ``now``."""
    balance, wallet = balance_of(party), destination_of(party, Purpose.WITHDRAWAL)
    return WithdrawalTerms(
        available_micro=max(0, balance.available_micro),
        held_micro=balance.held_micro,
        under_way_micro=withdrawing_of(party),
        minimum_micro=policy_value("withdrawal_minimum_micro", now),
        fee_micro=policy_value("withdrawal_fee_micro", now),
        wallet=wallet,
        cooling=wallet is not None and wallet.usable_from > now,
    )
