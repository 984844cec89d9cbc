"""Where we pay by SEPA, as data: the European Economic Area, which IBAN alone reaches.

Left out of the scheme's list: countries outside the area (CH, GB, MC, SM, VA, AD, AL, MD, ME, MK, RS), for which banks ask for
the payee's address and BIC, which we do not keep.
"""

from __future__ import annotations

SUPPORTED_COUNTRIES = frozenset(
    {
        *("AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI"),
        *("FR", "GR", "HR", "HU", "IE", "IS", "IT", "LI", "LT", "LU"),
        *("LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK"),
    }
)
"""ISO 3166 codes, as an IBAN begins."""
