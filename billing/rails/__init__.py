"""Ways to bank accounts, one folder each. ``RAILS`` is the list that the rest of billing knows them by."""

from __future__ import annotations

from billing.rails.base import BankRail
from billing.rails.sepa import SepaRail

RAILS: dict[str, BankRail] = {rail.name: rail for rail in (SepaRail(),)}

__all__ = ["RAILS", "BankRail"]
