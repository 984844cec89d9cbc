from billing.selectors.attention import MoneyWaiting, money_waiting
from billing.selectors.balances import Balance, balance_of, in_flight_of, payable_of, pending_of
from billing.selectors.earnings import (
    Earnings,
    Maturing,
    earnings_by_day,
    earnings_maturing,
    earnings_of,
    earnings_total,
)
from billing.selectors.history import HeldRow, HistoryRow, customer_history, holds_of, holds_open
from billing.selectors.payouts import (
    PayoutRow,
    cycle_of,
    destination_of,
    destination_shown,
    minimum_of,
    next_payout_on,
    payouts_of,
    payouts_page,
    why_not_yet,
)
from billing.selectors.policies import fee_bps_at, policy_value

__all__ = [
    "Balance",
    "Earnings",
    "HeldRow",
    "HistoryRow",
    "Maturing",
    "MoneyWaiting",
    "PayoutRow",
    "balance_of",
    "customer_history",
    "cycle_of",
    "destination_of",
    "destination_shown",
    "earnings_by_day",
    "earnings_maturing",
    "earnings_of",
    "earnings_total",
    "fee_bps_at",
    "holds_of",
    "holds_open",
    "in_flight_of",
    "minimum_of",
    "money_waiting",
    "next_payout_on",
    "payable_of",
    "payouts_of",
    "payouts_page",
    "pending_of",
    "policy_value",
    "why_not_yet",
]
