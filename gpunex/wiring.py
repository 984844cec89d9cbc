"""The registries that cross apps: explicit lists, no discovery. Read this file to know who hears what."""

from __future__ import annotations

from core.news import Wiring

NEWS = Wiring(
    topics={
        "provider.state": ("providers.provider_fleet_rejudge", "marketplace.listing_refresh_provider"),
        "machine.state": ("marketplace.listing_refresh",),
        "machine.inventory": ("benchmarks.runs_request_for_machine", "marketplace.listing_refresh"),
        "machine.rejudge": ("providers.machine_rejudge_told",),
        "gpu.left": ("providers.gpu_left_rejudge",),
        "gpu.clash": ("benchmarks.gpu_rechallenge",),
        "schedule.version": ("marketplace.listing_refresh_provider",),
        "benchmark.verdict": ("marketplace.listing_refresh_gpu",),
        "gpu.occupancy": ("marketplace.listing_refresh_gpu",),
        "machine.flip": ("marketplace.listing_refresh",),
        "provider.score": ("marketplace.listing_refresh_provider",),
    },
    handlers={
        "benchmarks.gpu_rechallenge": "benchmarks.services.gpu_rechallenge",
        "benchmarks.runs_request_for_machine": "benchmarks.services.runs_request_for_machine",
        "providers.gpu_left_rejudge": "providers.services.gpu_left_rejudge",
        "providers.machine_rejudge_told": "providers.services.machine_rejudge_told",
        "providers.provider_fleet_rejudge": "providers.services.provider_fleet_rejudge",
        "marketplace.listing_refresh": "marketplace.services.listing_refresh",
        "marketplace.listing_refresh_gpu": "marketplace.services.listing_refresh_gpu",
        "marketplace.listing_refresh_provider": "marketplace.services.listing_refresh_provider",
    },
)

INVARIANTS: list[str] = [
    "billing.invariants.ZeroSum",
    "billing.invariants.LiveBalances",
    "billing.invariants.HeldIsOpenHolds",
    "billing.invariants.PayoutsArePosted",
    "billing.invariants.EarningLinesAddUp",
    "billing.invariants.CheckpointsAddUp",
    "billing.invariants.DepositsArePosted",
    "billing.invariants.AdjustmentsAreAgreed",
    "billing.invariants.DocumentsHaveNoGaps",
    "billing.invariants.BankIsPosted",
    "billing.invariants.TreasuryIsOnChain",
    "marketplace.invariants.AttemptsHoldTheirGpus",
    "marketplace.invariants.ChargesAddUp",
    "marketplace.invariants.ActiveJobsHaveOneAttempt",
    "marketplace.invariants.HoldsBelongToOpenRentals",
    "marketplace.invariants.DisputesFreezeWhileOpen",
]
