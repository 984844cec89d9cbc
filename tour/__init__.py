"""``bin/tour``: walks a running marketplace from sign-up to payout, through public doors only, and says what it saw."""
