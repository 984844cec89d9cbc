"""Allowed moves of what providers own. Who may order each move, and what follows from it, stands in the services."""

from __future__ import annotations

from core.states import Moves

# draft → submitted → in review ⇄ more information → approved | rejected; the applicant may withdraw until a decision.
APPLICATION = Moves(
    "status",
    {
        "draft": {"submitted", "withdrawn"},
        "submitted": {"in_review", "withdrawn"},
        "in_review": {"more_information", "approved", "rejected", "withdrawn"},
        "more_information": {"in_review", "withdrawn"},
        "approved": set(),
        "rejected": set(),
        "withdrawn": set(),
    },
)
APPLICATION_OPEN = ("draft", "submitted", "in_review", "more_information")
"""A party has at most one application in these (a law in the database)."""
APPLICATION_WAITING = ("submitted", "in_review")
"""Waiting for us: the review queue."""

PROVIDER = Moves(
    "status",
    {"active": {"suspended", "closed"}, "suspended": {"active", "closed"}, "closed": set()},
)

# A new machine takes no customer's job until its owner has confirmed it, nor does one that enrolled anew out of quarantine.
# Retired and revoked are final: the machine comes back by enrolling again, as a new row.
MACHINE = Moves(
    "status",
    {
        "pending_confirmation": {"active", "retired", "quarantined", "revoked"},
        "active": {"draining", "retired", "quarantined", "revoked"},
        "draining": {"active", "retired", "quarantined", "revoked"},
        "quarantined": {"active", "pending_confirmation", "retired", "revoked"},
        "retired": set(),
        "revoked": set(),
    },
)
MACHINE_LIVE = ("pending_confirmation", "active", "draining", "quarantined")
"""Statuses in which a machine counts against the approved number and its GPUs against the approved groups."""

GPU = Moves(
    "status",
    {
        "active": {"needs_review", "unavailable", "retired"},
        "needs_review": {"active", "unavailable", "retired"},
        "unavailable": {"active", "needs_review", "retired"},
        "retired": set(),
    },
)
