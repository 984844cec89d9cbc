"""Billing's business numbers. A dated ``PolicyRow`` overrides a constant from its instant on (the demo installs its own)."""

from __future__ import annotations

from core.money import MICRO

HOUR = 3600
DAY = 24 * HOUR

DEFAULTS: dict[str, int] = {
    # A week's dust is not worth a transaction and a line on a statement.
    "payout_minimum_weekly_micro": 25 * MICRO,
    # A month collects more, so the floor only keeps out what the network fee would eat.
    "payout_minimum_monthly_micro": 1 * MICRO,
    # A bank transfer costs its fee, and a cent's rounding, however small it is.
    "payout_minimum_bank_monthly_micro": 25 * MICRO,
    # Time for a customer to see a charge and complain before it is payable.
    "maturing_seconds": 48 * HOUR,
    # New providers wait longer: the first weeks are when stolen cards and broken hosts show.
    "maturing_new_provider_seconds": 7 * DAY,
    "new_provider_seconds": 60 * DAY,
    # A stolen session must not redirect Monday's money before the owner has read the mail about it.
    "destination_cool_down_seconds": 72 * HOUR,
    # 1 releases payouts without two people; refused outside of demo mode.
    "automatic_release": 0,
    # Below it a payout run pauses: the hot wallet must be able to pay fees of the next run, too.
    "sol_reserve_lamports": 50_000_000,
    # A new token account's rent and the fee cost us some 0.4 USDC: less than this would lose a tenth of itself on the way.
    "withdrawal_minimum_micro": 5 * MICRO,
    # What they cost, rounded up. The same for everybody: whether the wallet's account has to be made is known only then.
    "withdrawal_fee_micro": MICRO // 2,
    # What two people may release in any 24 hours, all payouts together. Somebody who holds two log-ins gets away with this
    # much; a marketplace that pays more raises it, and who raised it approves nothing for a week.
    "release_limit_micro": 5_000 * MICRO,
    # The most the signer signs for at once, and the most that a payout is planned with.
    "payout_limit_micro": 100_000 * MICRO,
    # In any 24 hours the signer's journal allows two and a half of the largest payouts: more than a run of a young
    # marketplace, less than somebody who got into the money worker would like.
    "signing_day_limit_micro": 250_000 * MICRO,
    # One largest payout per day and wallet.
    "signing_destination_day_limit_micro": 100_000 * MICRO,
}

DEMO: dict[str, int] = {
    "payout_minimum_weekly_micro": MICRO // 100,
    "payout_minimum_monthly_micro": MICRO // 100,
    # Worth a euro cent at any rate: there are no fractions of one.
    "payout_minimum_bank_monthly_micro": MICRO // 10,
    "maturing_seconds": 0,
    "maturing_new_provider_seconds": 0,
    "destination_cool_down_seconds": 0,
    "automatic_release": 1,
    "sol_reserve_lamports": 1_000_000,
    "withdrawal_minimum_micro": MICRO // 10,
    "withdrawal_fee_micro": MICRO // 100,
    # Nobody waits for two people here, and the local chain's wallet holds this much.
    "release_limit_micro": 100_000 * MICRO,
}
"""The demo's own rows (``policies_demo_install``): everything can be seen within minutes."""
