from marketplace.selectors.attention import disputes_open, jobs_open, listings_hidden
from marketplace.selectors.disputes import (
    DisputeOffer,
    dispute_offers,
    dispute_refusal,
    disputes_of,
    disputes_of_provider,
)
from marketplace.selectors.fleet import MachineJob, machine_jobs
from marketplace.selectors.gpus import gpus_sellable
from marketplace.selectors.jobs import (
    Cost,
    Log,
    cost_of,
    job_of,
    jobs_of,
    log_read,
    plan_complete,
    reason_words,
    timeline_of,
)
from marketplace.selectors.listings import (
    RankReason,
    listing_of,
    listings_of_provider,
    price_history,
    rank_reason,
    what_if_place,
)
from marketplace.selectors.machines import FleetFilters, fleet_figures, fleet_page, fleet_rows
from marketplace.selectors.rates import market_prices, price_suggestion, rate_current, rate_history, rates_of_machine
from marketplace.selectors.search import Filters, Page, filters_read, filters_to_relax, listings_count, listings_search

__all__ = [
    "Cost",
    "DisputeOffer",
    "Filters",
    "FleetFilters",
    "Log",
    "MachineJob",
    "Page",
    "RankReason",
    "cost_of",
    "dispute_offers",
    "dispute_refusal",
    "disputes_of",
    "disputes_of_provider",
    "disputes_open",
    "filters_read",
    "filters_to_relax",
    "fleet_figures",
    "fleet_page",
    "fleet_rows",
    "gpus_sellable",
    "job_of",
    "jobs_of",
    "jobs_open",
    "listing_of",
    "listings_count",
    "listings_hidden",
    "listings_of_provider",
    "listings_search",
    "log_read",
    "machine_jobs",
    "market_prices",
    "plan_complete",
    "price_history",
    "price_suggestion",
    "rank_reason",
    "rate_current",
    "rate_history",
    "rates_of_machine",
    "reason_words",
    "timeline_of",
    "what_if_place",
]
