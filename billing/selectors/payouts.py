from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from django.conf import settings
from django.db.models import Prefetch, Sum
from django.utils import formats, timezone
from django.utils.translation import gettext as _

from accounts.models import Party
from billing.models import (
    Account,
    Cycle,
    Destination,
    Payout,
    PayoutAttempt,
    PayoutCycle,
    PayoutSwitch,
    Posting,
    Transfer,
)
from billing.periods import next_pay_day
from billing.selectors.balances import payable_of, pending_of
from billing.selectors.policies import policy_value
from core.money import format_usdc


@dataclass(frozen=True, slots=True)
class PayoutRow:
    """One payout as its payee sees it. ``signature`` and ``link`` only once it is final."""

    id: object
    period_start: date
    period_end: date
    amount_micro: int
    address: str
    status: str
    created_at: datetime
    settled_at: datetime | None
    signature: str
    link: str


def payouts_of(party: Party, *, limit: int = 50) -> list[PayoutRow]:
    settled = PayoutAttempt.objects.filter(state=PayoutAttempt.State.SETTLED)
    rows = (
        Payout.objects.filter(party=party)
        .select_related("run")
        .prefetch_related(Prefetch("attempts", queryset=settled, to_attr="settled"))
        .order_by("-created_at")[:limit]
    )
    return [_row(payout) for payout in rows]


def _row(payout: Payout) -> PayoutRow:
    settled: list[PayoutAttempt] = payout.settled  # type: ignore[attr-defined]
    signature = settled[0].signature if settled else ""
    return PayoutRow(
        id=payout.pk,
        period_start=payout.run.period_start,
        period_end=payout.run.period_end,
        amount_micro=payout.amount_micro,
        address=payout.address,
        status=payout.status,
        created_at=payout.created_at,
        settled_at=payout.settled_at,
        signature=signature,
        link=explorer_link(signature),
    )


def explorer_link(signature: str) -> str:
    """Where a transaction can be looked at; empty when there is no such place."""
    template = settings.SOLANA_EXPLORER_URL
    return template.replace("{signature}", signature) if template and signature else ""


def cycle_of(party: Party, on: date) -> str:
    """How often the party is paid on this day; a period belongs to the cycle of its last day."""
    row = PayoutCycle.objects.filter(party=party, valid_from__lte=on).order_by("-valid_from").first()
    return Cycle.WEEKLY.value if row is None else row.kind


def destination_of(party: Party) -> Destination | None:
    return Destination.objects.filter(party=party, state=Destination.State.ACTIVE).first()


def payouts_frozen() -> PayoutSwitch | None:
    """The switch that stops payouts, or None while they run."""
    latest = PayoutSwitch.objects.order_by("-id").first()
    return latest if latest is not None and latest.frozen else None


def minimum_micro(kind: str, at: datetime) -> int:
    return policy_value(f"payout_minimum_{kind}_micro", at)


def payable_before(payable: Account, end: datetime) -> int:
    """What of a payable balance had matured before ``end``: the balance less what matured since."""
    since = Posting.objects.filter(
        account=payable, transfer__kind=Transfer.Kind.EARNINGS_MATURED, transfer__effective_at__gte=end
    )
    return payable.balance - payable.held - max(0, since.aggregate(total=Sum("amount"))["total"] or 0)


def in_flight_total() -> int:
    """What all open payouts still have to move."""
    total = Account.objects.filter(kind=Account.Kind.PAYOUT_IN_FLIGHT).aggregate(total=Sum("balance"))["total"]
    return int(total or 0)


def next_payout_on(party: Party, now: datetime) -> date:
    today = now.date()
    return next_pay_day(cycle_of(party, today), today)


def why_not_yet(party: Party, now: datetime) -> list[str]:
    """What stands between a party's payable balance and its next payout, in the viewer's words; empty: nothing."""
    reasons = []
    payable, minimum = payable_of(party), minimum_micro(cycle_of(party, now.date()), now)
    if payable < 0:
        reasons.append(
            _("A debt of %(amount)s USDC is paid back from your next earnings.") % {"amount": format_usdc(-payable)}
        )
    elif payable < minimum:
        words = {"payable": format_usdc(payable), "minimum": format_usdc(minimum)}
        reasons.append(_("Below the minimum: %(payable)s of %(minimum)s USDC.") % words)
    if (pending := pending_of(party)) > 0 and payable < minimum:
        reasons.append(_("%(amount)s USDC are still pending.") % {"amount": format_usdc(pending)})
    destination = destination_of(party)
    if destination is None:
        reasons.append(_("No payout wallet is set."))
    elif destination.usable_from > now:
        when = formats.date_format(timezone.localtime(destination.usable_from), "DATETIME_FORMAT")
        reasons.append(_("The new payout wallet can be used from %(when)s on.") % {"when": when})
    if party.status != Party.Status.ACTIVE:
        reasons.append(_("The account is suspended."))
    if payouts_frozen() is not None:
        reasons.append(_("Payouts are paused for all while we check something."))
    return reasons
