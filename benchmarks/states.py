"""Allowed moves of a benchmark run.

    requested → offered → running → reported → verified
        offered and running: failed (the agent says so, or it is withdrawn), expired (the agent says nothing in time)

Offered and running runs hold the GPU's claim and a plan item of the machine; every other status holds neither.
"""

from __future__ import annotations

from core.states import Moves

RUN = Moves(
    "status",
    {
        "requested": {"offered", "failed"},
        "offered": {"running", "reported", "failed", "expired"},
        "running": {"reported", "failed", "expired"},
        "reported": {"verified"},
        "verified": set(),
        "failed": set(),
        "expired": set(),
    },
)
RUN_OPEN = ("requested", "offered", "running", "reported")
RUN_ON_HOST = ("offered", "running")
