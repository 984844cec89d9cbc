"""Our own bank accounts, one per rail at most, as the settings name them."""

from __future__ import annotations

from django.conf import settings
from schwifty import BIC
from schwifty.exceptions import SchwiftyException

from billing.rails import RAILS
from billing.rails.base import OurAccount
from core.errors import DomainError, Invalid


class BankUnavailable(DomainError):
    """This installation has no (valid) account on the rail: no file can be made, none read."""

    code = "bank_unavailable"
    status = 503


def our_account(scheme: str) -> OurAccount:
    """Raises BankUnavailable naming the setting that is missing or wrong."""
    prefix = f"BANK_{scheme.upper()}_"
    values = {name: getattr(settings, prefix + name, "") for name in ("HOLDER", "IBAN", "BIC")}
    missing = [prefix + name for name, value in values.items() if not value]
    if missing:
        raise BankUnavailable(f"{', '.join(missing)} is not set: there is no account to pay from.")
    rail = RAILS[scheme]
    try:
        account = rail.account_check(values["IBAN"], field=prefix + "IBAN")
        rail.holder_check(values["HOLDER"], field=prefix + "HOLDER")
        bank = str(BIC(values["BIC"]))
    except Invalid as error:
        raise BankUnavailable(error.message) from error
    except SchwiftyException as error:
        raise BankUnavailable(f"{prefix}BIC: found {values['BIC']!r}, {error}.") from error
    return OurAccount(holder=values["HOLDER"], account=account, bank=bank)


def schemes_offered() -> list[str]:
    """The rails on which we have an account: what a payee may choose."""
    found = []
    for scheme in RAILS:
        try:
            our_account(scheme)
        except BankUnavailable:
            continue
        found.append(scheme)
    return found
