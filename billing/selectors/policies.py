from __future__ import annotations

from datetime import datetime

from billing import policies
from billing.fees import DEFAULT_FEE_BPS
from billing.models import FeeRate, PolicyRow


def policy_value(name: str, at: datetime) -> int:
    """The business number that holds at an instant. Raises KeyError for a name that is none of ``policies.DEFAULTS``."""
    default = policies.DEFAULTS[name]
    row = PolicyRow.objects.filter(name=name, valid_from__lte=at).order_by("-valid_from").first()
    return default if row is None else row.value


def fee_bps_at(at: datetime) -> int:
    """The platform's fee in basis points for a rental that starts at this instant."""
    row = FeeRate.objects.filter(valid_from__lte=at).order_by("-valid_from").first()
    return DEFAULT_FEE_BPS if row is None else row.bps
