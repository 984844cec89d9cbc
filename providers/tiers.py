"""The tier rule, pure: it proposes, and says what enterprise would have needed; the reviewer decides."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext_noop

ENTERPRISE_COMMITMENT_MONTHS = 6
"""An enterprise contract outlives a quarter; less than half a year cannot back one."""

WHY_NOT = {
    "no_company": gettext_noop("The applicant names no company."),
    "ups_not_all": gettext_noop("Not every machine has a UPS."),
    "short_commitment": gettext_noop("The commitment is shorter than 6 months."),
    "not_always_on": gettext_noop("Not every GPU is available 24/7."),
}


@dataclass(frozen=True)
class Proposal:
    """``tier`` and, for community, the codes (keys of WHY_NOT) of what stands against enterprise."""

    tier: str
    why_not: tuple[str, ...]


def propose(*, company: str, ups: str, commitment_months: int, always_on: bool) -> Proposal:
    """Enterprise takes a company, a UPS on every machine, six months and round-the-clock availability of every GPU."""
    missing = {
        "no_company": not company.strip(),
        "ups_not_all": ups != "all",
        "short_commitment": commitment_months < ENTERPRISE_COMMITMENT_MONTHS,
        "not_always_on": not always_on,
    }
    why_not = tuple(code for code, is_missing in missing.items() if is_missing)
    return Proposal("community" if why_not else "enterprise", why_not)
