"""The first suite and its thresholds: (name, value, reason). Later ones are rows an operator adds, not migrations."""

from __future__ import annotations

from datetime import UTC, datetime

VALID_FROM = datetime(2020, 1, 1, tzinfo=UTC)
"""Before anything of ours happened, so that every run ever made has limits."""
ROUNDS = 128
"""Seconds of work for a fast card, so that starting a container and crossing the network are the smaller part."""
TIME_LIMIT_S = 900

THRESHOLDS = (
    ("gpu_share_of_fleet_median", "0.80", "Healthy equal cards spread by a few percent; a fifth below is a fault."),
    ("gpu_share_of_reference", "0.75", "A reference measured elsewhere deserves more leeway than our own fleet."),
    ("fleet_median_machines", "20", "Below that a few odd machines would set the standard."),
    ("peak_factor", "1.15", "Above the vendor's peak by more than boost clocks explain."),
    ("network_down_mbps", "100", "Images of several GB must arrive within minutes."),
    ("network_up_mbps", "50", "Results have to leave as well."),
    ("network_mbps_per_gib", "2.6", "Models grow with the memory they are to fill."),
    ("network_cap_mbps", "500", "Beyond that the registry is the bottleneck."),
    ("latency_ms", "300", "Interactive work stays usable."),
    ("storage_read_mbps", "500", "A data set must not starve the GPU."),
    ("storage_write_mbps", "300", "Checkpoints must not stop it."),
)
