from billing.selectors.balances import Balance, balance_of, in_flight_of, payable_of, pending_of
from billing.selectors.earnings import Earnings, earnings_by_day, earnings_of
from billing.selectors.policies import fee_bps_at, policy_value

__all__ = [
    "Balance",
    "Earnings",
    "balance_of",
    "earnings_by_day",
    "earnings_of",
    "fee_bps_at",
    "in_flight_of",
    "payable_of",
    "pending_of",
    "policy_value",
]
