"""Where we serve: countries (ISO 3166-1 alpha-2) and the nine regions derived from them, pure."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

REGIONS = {
    "north-america": _("North America"),
    "latin-america": _("Latin America"),
    "western-europe": _("Western Europe"),
    "northern-europe": _("Northern Europe"),
    "eastern-europe": _("Eastern Europe"),
    "middle-east-africa": _("Middle East and Africa"),
    "south-asia": _("South Asia"),
    "east-asia": _("East and Southeast Asia"),
    "oceania": _("Oceania"),
}

# Countries in which payouts and export rules let us serve a provider. Add one after both were checked.
COUNTRIES: dict[str, tuple[str, str]] = {
    "AE": (gettext_noop("United Arab Emirates"), "middle-east-africa"),
    "AR": (gettext_noop("Argentina"), "latin-america"),
    "AT": (gettext_noop("Austria"), "western-europe"),
    "AU": (gettext_noop("Australia"), "oceania"),
    "BE": (gettext_noop("Belgium"), "western-europe"),
    "BG": (gettext_noop("Bulgaria"), "eastern-europe"),
    "BR": (gettext_noop("Brazil"), "latin-america"),
    "CA": (gettext_noop("Canada"), "north-america"),
    "CH": (gettext_noop("Switzerland"), "western-europe"),
    "CL": (gettext_noop("Chile"), "latin-america"),
    "CO": (gettext_noop("Colombia"), "latin-america"),
    "CY": (gettext_noop("Cyprus"), "eastern-europe"),
    "CZ": (gettext_noop("Czechia"), "eastern-europe"),
    "DE": (gettext_noop("Germany"), "western-europe"),
    "DK": (gettext_noop("Denmark"), "northern-europe"),
    "EE": (gettext_noop("Estonia"), "northern-europe"),
    "ES": (gettext_noop("Spain"), "western-europe"),
    "FI": (gettext_noop("Finland"), "northern-europe"),
    "FR": (gettext_noop("France"), "western-europe"),
    "GB": (gettext_noop("United Kingdom"), "western-europe"),
    "GR": (gettext_noop("Greece"), "eastern-europe"),
    "HR": (gettext_noop("Croatia"), "eastern-europe"),
    "HU": (gettext_noop("Hungary"), "eastern-europe"),
    "ID": (gettext_noop("Indonesia"), "east-asia"),
    "IE": (gettext_noop("Ireland"), "western-europe"),
    "IL": (gettext_noop("Israel"), "middle-east-africa"),
    "IN": (gettext_noop("India"), "south-asia"),
    "IS": (gettext_noop("Iceland"), "northern-europe"),
    "IT": (gettext_noop("Italy"), "western-europe"),
    "JP": (gettext_noop("Japan"), "east-asia"),
    "KE": (gettext_noop("Kenya"), "middle-east-africa"),
    "KR": (gettext_noop("South Korea"), "east-asia"),
    "KZ": (gettext_noop("Kazakhstan"), "south-asia"),
    "LT": (gettext_noop("Lithuania"), "northern-europe"),
    "LU": (gettext_noop("Luxembourg"), "western-europe"),
    "LV": (gettext_noop("Latvia"), "northern-europe"),
    "MT": (gettext_noop("Malta"), "western-europe"),
    "MX": (gettext_noop("Mexico"), "latin-america"),
    "MY": (gettext_noop("Malaysia"), "east-asia"),
    "NL": (gettext_noop("Netherlands"), "western-europe"),
    "NO": (gettext_noop("Norway"), "northern-europe"),
    "NP": (gettext_noop("Nepal"), "south-asia"),
    "NZ": (gettext_noop("New Zealand"), "oceania"),
    "PE": (gettext_noop("Peru"), "latin-america"),
    "PH": (gettext_noop("Philippines"), "east-asia"),
    "PL": (gettext_noop("Poland"), "eastern-europe"),
    "PT": (gettext_noop("Portugal"), "western-europe"),
    "RO": (gettext_noop("Romania"), "eastern-europe"),
    "SA": (gettext_noop("Saudi Arabia"), "middle-east-africa"),
    "SE": (gettext_noop("Sweden"), "northern-europe"),
    "SG": (gettext_noop("Singapore"), "east-asia"),
    "SI": (gettext_noop("Slovenia"), "eastern-europe"),
    "SK": (gettext_noop("Slovakia"), "eastern-europe"),
    "TH": (gettext_noop("Thailand"), "east-asia"),
    "TR": (gettext_noop("Türkiye"), "middle-east-africa"),
    "TW": (gettext_noop("Taiwan"), "east-asia"),
    "UA": (gettext_noop("Ukraine"), "eastern-europe"),
    "US": (gettext_noop("United States"), "north-america"),
    "UY": (gettext_noop("Uruguay"), "latin-america"),
    "VN": (gettext_noop("Vietnam"), "east-asia"),
    "ZA": (gettext_noop("South Africa"), "middle-east-africa"),
}


def served(country: str) -> bool:
    return country in COUNTRIES


def region_of(country: str) -> str:
    """The region of a served country; KeyError for any other."""
    return COUNTRIES[country][1]
