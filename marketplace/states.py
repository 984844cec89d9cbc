"""How jobs, attempts and disputes live. Every move goes through these tables and leaves one event row (core.states).

job        queued ──► active ──► succeeded | failed(reason) | lost(reason) | cancelled
              ▲          │
              └──────────┘  the attempt ended and another may follow
           queued ──► cancelled | failed(no_capacity, no_funds, no_limit_room, rate_changed, listing_gone)

attempt    offered ──► pulling ──► starting ──► running ──► stopping ──► ended(reason)
             60 s       30 min      5 min       lease        10 min

An agent reports what it sees, so states in between may never be seen: every state may jump forward, none goes back.
``stopping`` is ours (a stop was ordered) or the agent's (it stops by itself); ``ended`` frees the GPUs.
"""

from __future__ import annotations

from core.states import Moves

JOB = Moves(
    "status",
    {
        "queued": {"active", "cancelled", "failed"},
        "active": {"queued", "succeeded", "failed", "cancelled", "lost"},
        "succeeded": set(),
        "failed": set(),
        "cancelled": set(),
        "lost": set(),
    },
)

DISPUTE = Moves("status", {"open": {"granted", "refused"}, "granted": set(), "refused": set()})

ATTEMPT = Moves(
    "status",
    {
        "offered": {"pulling", "starting", "running", "stopping", "ended"},
        "pulling": {"starting", "running", "stopping", "ended"},
        "starting": {"running", "stopping", "ended"},
        "running": {"stopping", "ended"},
        "stopping": {"ended"},
        "ended": set(),
    },
)

ATTEMPT_ORDER = {name: place for place, name in enumerate(ATTEMPT.states)}
"""Reports arrive late and out of order; one that names an earlier state than ours moves nothing."""

OFFER_SECONDS = 60
"""An agent syncs every 15 s: four missed chances, then the job goes back to the queue."""
PULL_SECONDS = 30 * 60
"""A 40 GB image over 200 Mbps takes 27 minutes."""
START_SECONDS = 5 * 60
STOP_SECONDS = 10 * 60
"""TERM, 30 s, KILL take a minute; a GPU that is not free after ten is kept out of use until the machine says so."""
PARTITION_MARGIN_SECONDS = 5 * 60
"""The agent stops an unreachable job after its grace; only this much later may the job start elsewhere."""
QUEUE_SECONDS = 24 * 3600
LIMIT_MARGIN_SECONDS = 60
"""The agent enforces the time limit; the platform orders the stop only when that is overdue."""
