from billing.selectors.attention import MoneyWaiting, money_waiting
from billing.selectors.balances import Balance, balance_of, in_flight_of, payable_of, pending_of
from billing.selectors.earnings import Earnings, earnings_by_day, earnings_of
from billing.selectors.history import HistoryRow, customer_history, holds_of, holds_open
from billing.selectors.payouts import (
    PayoutRow,
    cycle_of,
    destination_of,
    next_payout_on,
    payouts_of,
    why_not_yet,
)
from billing.selectors.policies import fee_bps_at, policy_value

__all__ = [
    "Balance",
    "Earnings",
    "HistoryRow",
    "MoneyWaiting",
    "PayoutRow",
    "balance_of",
    "customer_history",
    "cycle_of",
    "destination_of",
    "earnings_by_day",
    "earnings_of",
    "fee_bps_at",
    "holds_of",
    "holds_open",
    "in_flight_of",
    "money_waiting",
    "next_payout_on",
    "payable_of",
    "payouts_of",
    "pending_of",
    "policy_value",
    "why_not_yet",
]
