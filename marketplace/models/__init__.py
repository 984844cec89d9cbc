from marketplace.models.attempt import Attempt, AttemptEvidence
from marketplace.models.job import Job
from marketplace.models.listing import Listing, ListingIndex, MarketPrice
from marketplace.models.log import LogChunk
from marketplace.models.protection import Dispute, LowBalance
from marketplace.models.rate import Rate
from marketplace.models.rental import Charge, Rental, RentalGpu
from marketplace.models.usage import UsageWindow

__all__ = [
    "Attempt",
    "AttemptEvidence",
    "Charge",
    "Dispute",
    "Job",
    "Listing",
    "ListingIndex",
    "LogChunk",
    "LowBalance",
    "MarketPrice",
    "Rate",
    "Rental",
    "RentalGpu",
    "UsageWindow",
]
