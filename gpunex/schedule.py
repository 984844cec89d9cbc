"""Every periodic verb and its pace. Each claims its slot or takes row leases, so two beats are harmless."""

from __future__ import annotations

from typing import Any

from gpunex import environment as env

DEMO = env.flag("DEMO", False)
"""Somebody who tries it out looks at the screen: what they did shows within seconds."""
MINUTE = 60.0
HOUR = 60 * MINUTE


def every(task: str, seconds: float) -> dict[str, Any]:
    # A run that waited longer than its own period is dropped: the next one does its work.
    return {"task": task, "schedule": seconds, "options": {"expires": max(seconds, 5.0)}}


SCHEDULE: dict[str, dict[str, Any]] = {
    "news": every("core.news_deliver", 5.0),
    "mails": every("accounts.mails_sweep", MINUTE),
    "deposits": every("billing.deposits_read", 5.0),
    # Wrong money under our references: each unpaid intent costs a call of the node.
    "foreign_payments": every("billing.foreign_payments_read", MINUTE),
    "treasury": every("billing.treasury_read", MINUTE),
    "books": every("billing.books_check", 15 * MINUTE),
    "checkpoints": every("billing.checkpoints_take", HOUR),
    "earnings": every("billing.earnings_mature", 5.0 if DEMO else MINUTE),
    "receipts": every("billing.receipts_issue", 15.0 if DEMO else MINUTE),
    "payout_statements": every("marketplace.payout_statements_issue", 15.0 if DEMO else MINUTE),
    # Of the months that are over; hourly, so that the first of a month is enough and a day's outage is caught up with.
    "monthly_statements": every("marketplace.monthly_statements_issue", HOUR),
    # Every day is somebody's pay day; the run of a period is planned once, whoever asks how often.
    "payouts": every("billing.payouts_run", 10 * MINUTE),
    "payouts_sweep": every("billing.payouts_sweep", 5.0),
    # From noon (UTC) on, once a day per run that is not released.
    "runs_alert": every("billing.runs_alert", 10 * MINUTE),
    "invariants": every("core.invariants_check", MINUTE if DEMO else 15 * MINUTE),
    "benchmark_dispatch": every("benchmarks.runs_dispatch", 5.0),
    "benchmark_expiry": every("benchmarks.runs_expire", 30.0),
    "benchmark_proofs": every("benchmarks.proofs_decide", MINUTE),
    "benchmark_weekly": every("benchmarks.runs_request_weekly", HOUR),
    "heartbeats": every("reliability.heartbeats_flush", 5.0 if DEMO else MINUTE),
    "offline": every("reliability.offline_sweep", 5.0),
    "telemetry": every("reliability.telemetry_roll_up", MINUTE),
    "offline_notices": every("reliability.offline_notices_send", 15.0),
    "scores": every("reliability.scores_recompute", 15.0 if DEMO else 15 * MINUTE),
    "jobs_place": every("marketplace.jobs_place", 2.0),
    "attempts": every("marketplace.attempts_sweep", 10.0),
    "windows": every("marketplace.windows_close", 10.0 if DEMO else MINUTE),
    "customers": every("marketplace.customers_watch", 10.0 if DEMO else MINUTE),
    "usage": every("marketplace.usage_settle", 15 * MINUTE),
    "rentals": every("marketplace.rentals_settle_ended", MINUTE),
    "listings": every("marketplace.listings_recheck", MINUTE),
    "ranks": every("marketplace.listings_rank", 15 * MINUTE),
    "mails_forget": every("accounts.mails_forget", 24 * HOUR),
    "agent_events": every("gpunex.events_forget", 24 * HOUR),
    "partitions": every("core.partitions_keep", 6 * HOUR),
    "schedules": every("providers.schedules_sweep", 15.0),
}
