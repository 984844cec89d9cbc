"""Allowed moves of a party: suspended hides and holds, closed is final."""

from __future__ import annotations

from core.states import Moves

PARTY = Moves(
    "status",
    {"active": {"suspended", "closed"}, "suspended": {"active", "closed"}, "closed": set()},
)
