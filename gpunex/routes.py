"""Which queue a job goes to, by its name alone: the one place. A process that sends a job needs none of its code.

``core.jobs.QUEUES`` says what each queue is for. ``money`` is the signer's: what reaches the chain or a bank belongs there.
"""

from __future__ import annotations

JOBS: dict[str, tuple[str, ...]] = {
    "mail": ("accounts.mail_send",),
    "money": (
        "billing.deposits_read",
        "billing.payouts_run",
        "billing.bank_runs_plan",
        "billing.payout_run_start",
        "billing.payout_submit",
        "billing.payouts_sweep",
        "billing.treasury_read",
        "billing.books_check",
        "billing.foreign_payments_read",
    ),
    "default": (
        "billing.earnings_mature",
        "billing.receipts_issue",
        "core.news_deliver",
        "marketplace.jobs_place",
        "marketplace.rental_settle",
        "marketplace.payout_statements_issue",
        "marketplace.monthly_statements_issue",
    ),
    "bench": (
        "benchmarks.runs_dispatch",
        "benchmarks.runs_expire",
        "benchmarks.runs_request_weekly",
        "benchmarks.proofs_decide",
    ),
    "sweep": (
        "accounts.mails_sweep",
        "accounts.mails_forget",
        "billing.checkpoints_take",
        "billing.runs_alert",
        "core.invariants_check",
        "core.partitions_keep",
        "gpunex.events_forget",
        "marketplace.attempts_sweep",
        "marketplace.windows_close",
        "marketplace.usage_settle",
        "marketplace.rentals_settle_ended",
        "marketplace.listings_recheck",
        "marketplace.listings_rank",
        "providers.schedules_sweep",
        "reliability.heartbeats_flush",
        "reliability.offline_sweep",
        "reliability.scores_recompute",
        "reliability.telemetry_roll_up",
        "reliability.offline_notices_send",
        "marketplace.customers_watch",
    ),
}

ROUTES: dict[str, dict[str, str]] = {name: {"queue": queue} for queue, names in JOBS.items() for name in names}
"""Celery's ``task_routes``."""
