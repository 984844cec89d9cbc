"""Setting dated business numbers. A row is never changed: a later one takes over from its instant on."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import transaction

from billing import policies
from billing.fees import BASIS_POINTS
from billing.models import FeeRate, PolicyRow
from billing.selectors.policies import fee_bps_at, policy_value
from billing.services.audit import audit_record
from core import clock
from core.errors import Denied, Invalid
from core.states import actor_name


def policy_set(*, name: str, value: int, valid_from: datetime, actor: object | None = None) -> PolicyRow:
    """Let ``value`` hold from ``valid_from`` on. Setting the same row twice is one row.

    Raises Invalid (unknown name, negative value), Denied (automatic release outside of demo mode).
    """
    if name not in policies.DEFAULTS:
        raise Invalid.field("name", found=name, allowed=", ".join(sorted(policies.DEFAULTS)))
    if value < 0:
        raise Invalid.field("value", found=value, allowed="a whole number from 0")
    if name == "automatic_release" and value and not settings.DEMO:
        raise Denied("Payouts are released by two people; only demo mode releases them by itself.")
    with transaction.atomic():
        before = {"value": policy_value(name, valid_from)}
        row, made = PolicyRow.objects.get_or_create(
            name=name, valid_from=valid_from, defaults={"value": value, "set_by": actor_name(actor)}
        )
        if made:
            after = {"name": name, "value": value, "valid_from": valid_from}
            audit_record(verb="policy_set", subject=row, actor=actor, before=before, after=after, now=clock.now())
    return row


def policies_demo_install(*, now: datetime) -> None:
    """The demo's own numbers: minimum payout 0.01, no maturing, no cool-down, released at once. Demo mode only."""
    if not settings.DEMO:
        raise Denied("These numbers are for demo mode only.")
    known = set(PolicyRow.objects.filter(name__in=policies.DEMO, set_by="demo").values_list("name", flat=True))
    for name, value in policies.DEMO.items():
        if name not in known:
            policy_set(name=name, value=value, valid_from=now, actor="demo")


def fee_rate_set(*, bps: int, valid_from: datetime, now: datetime, actor: object | None = None) -> FeeRate:
    """Let a platform fee hold from a future instant on; running rentals keep theirs."""
    if not 0 <= bps <= BASIS_POINTS:
        raise Invalid.field("bps", found=bps, allowed=f"0 to {BASIS_POINTS}")
    if valid_from < now:
        raise Invalid.field("valid_from", found=valid_from.isoformat(), allowed="an instant that is not past")
    with transaction.atomic():
        before = {"bps": fee_bps_at(valid_from)}
        rate = FeeRate.objects.create(bps=bps, valid_from=valid_from, set_by=actor_name(actor))
        after = {"bps": bps, "valid_from": valid_from}
        audit_record(verb="fee_rate_set", subject=rate, actor=actor, before=before, after=after, now=now)
    return rate
