"""IBANs that we can pay, and names in the letters that SEPA carries."""

from __future__ import annotations

import re
import unicodedata

from schwifty import IBAN
from schwifty.exceptions import SchwiftyException
from text_unidecode import unidecode

from billing.rails.sepa.countries import SUPPORTED_COUNTRIES
from core.errors import Invalid

NAME_LETTERS = 70
"""EPC: the longest name a SEPA message carries to the payee's bank."""
_FOREIGN = re.compile(r"[^A-Za-z0-9/\-?:().,'+ ]")


def iban_check(text: str, *, field: str = "iban") -> str:
    """The IBAN without blanks, in capitals. Raises Invalid: no IBAN, wrong check digits, a country that we do not pay to."""
    found = text.strip()
    try:
        iban = IBAN(found)
    except SchwiftyException as error:
        # The library's sentence names what is wrong (length, structure, check digits), never another person's data.
        raise Invalid.field(
            field, found=found, allowed=f"an IBAN such as DE89 3704 0044 0532 0130 00 ({error})"
        ) from error
    if iban.country_code not in SUPPORTED_COUNTRIES:
        raise Invalid.field(field, found=iban.country_code, allowed=", ".join(sorted(SUPPORTED_COUNTRIES)))
    return str(iban)


def sepa_text(text: str, letters: int) -> str:
    """``text`` in the letters every SEPA bank takes; a control character becomes a blank, so nothing can break a line."""
    plain = "".join(" " if unicodedata.category(letter) in {"Cc", "Cf", "Zl", "Zp"} else letter for letter in text)
    latin = _FOREIGN.sub(" ", unidecode(plain).replace("&", "+"))
    # A reference may not begin or end with a slash, nor hold two of them (EPC217-08).
    return re.sub("/{2,}", "/", " ".join(latin.split()))[:letters].strip(" /")


def holder_text(name: str, *, field: str = "holder") -> str:
    """An account holder's name as it stands in a file. Raises Invalid when no letter of it is left."""
    found = sepa_text(name, NAME_LETTERS)
    if not any(letter.isalpha() for letter in found):
        raise Invalid.field(field, found=name, allowed="a name with at least one letter")
    return found
