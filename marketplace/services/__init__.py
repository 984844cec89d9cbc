from marketplace.services.closing import attempt_close
from marketplace.services.disputes import dispute_decide, dispute_open
from marketplace.services.documents import monthly_statements_issue, payout_statements_issue
from marketplace.services.fencing import StaleToken
from marketplace.services.handout import SecretsGone, SecretsOtherBoot, attempt_secrets_collect
from marketplace.services.listings import (
    listing_refresh,
    listing_refresh_gpu,
    listing_refresh_provider,
    listings_recheck,
    listings_refresh,
)
from marketplace.services.logs import LogOffset, log_append
from marketplace.services.observation import attempt_end, attempt_observe
from marketplace.services.placement import Placed, job_place, jobs_place, queue_sweep
from marketplace.services.protection import customers_watch
from marketplace.services.ranks import listings_rank, market_prices_write
from marketplace.services.rates import rate_set
from marketplace.services.settlement import rental_settle, rentals_settle_ended, usage_settle
from marketplace.services.stopping import attempt_stop_by_id, job_cancel, jobs_stop
from marketplace.services.submission import job_rerun, job_submit
from marketplace.services.sweeping import attempts_sweep
from marketplace.services.windows import holds_renew, windows_close, windows_extend

__all__ = [
    "LogOffset",
    "Placed",
    "SecretsGone",
    "SecretsOtherBoot",
    "StaleToken",
    "attempt_close",
    "attempt_end",
    "attempt_observe",
    "attempt_secrets_collect",
    "attempt_stop_by_id",
    "attempts_sweep",
    "customers_watch",
    "dispute_decide",
    "dispute_open",
    "holds_renew",
    "job_cancel",
    "job_place",
    "job_rerun",
    "job_submit",
    "jobs_place",
    "jobs_stop",
    "listing_refresh",
    "listing_refresh_gpu",
    "listing_refresh_provider",
    "listings_rank",
    "listings_recheck",
    "listings_refresh",
    "log_append",
    "market_prices_write",
    "monthly_statements_issue",
    "payout_statements_issue",
    "queue_sweep",
    "rate_set",
    "rental_settle",
    "rentals_settle_ended",
    "usage_settle",
    "windows_close",
    "windows_extend",
]
