"""/provider/earnings/: the running period live, by GPU and by model, history, what is pending until when, payable and why it
is not paid yet, payouts with their statements, what moves earnings, where payouts go."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import formats
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.http import PersonRequest
from accounts.models import Party
from accounts.reauthentication import identity_confirm
from billing.forms import SignatureForm, WalletForm
from billing.periods import Period, day_starts, period_current
from billing.selectors import (
    Earnings,
    cycle_of,
    destination_of,
    destination_shown,
    earnings_by_day,
    earnings_maturing,
    earnings_of,
    earnings_total,
    fee_bps_at,
    frozen_of,
    in_flight_of,
    minimum_of,
    next_payout_on,
    payable_of,
    payouts_page,
    pending_of,
    why_not_yet,
)
from billing.services import destination_bank_set, destination_challenge, destination_prove, schemes_offered
from core import clock
from core.charts import bar_chart
from core.errors import DomainError, Invalid
from core.forms import add_domain_error
from core.money import format_usdc
from marketplace.forms import BankAccountForm, DateRangeForm
from marketplace.selectors import disputes_of_provider
from marketplace.selectors.factors import accruing_of, factors_of
from marketplace.views.provider import fee_percent, provider_or_404
from providers.models import Gpu, Provider

DAY = timedelta(days=1)
BARS_MAX = 62
"""Days in one chart; more become weeks, so that a bar can still be pointed at."""
DAYS_SHOWN = 31
PAYOUTS_SHOWN = 10


@login_required
@require_safe
def earnings(request: PersonRequest) -> HttpResponse:
    return _page(request, provider_or_404(request))


def _page(
    request: PersonRequest,
    provider: Provider,
    *,
    wallet: WalletForm | None = None,
    signature: SignatureForm | None = None,
    text: str = "",
    bank: BankAccountForm | None = None,
) -> HttpResponse:
    now, party = clock.now(), provider.party
    kind = cycle_of(party, now.date())
    period = period_current(kind, now.date())
    dates = DateRangeForm(request.GET if "since" in request.GET or "until" in request.GET else None)
    since, until = _range(dates, period)
    found = earnings_of(party, since, until)
    days = dict(earnings_by_day(party, since, until))
    accruing_micro, running = accruing_of(provider, now=now)
    try:
        payouts, cursor = payouts_page(party, cursor=request.GET.get("cursor", ""), limit=PAYOUTS_SHOWN)
    except Invalid as error:
        raise Http404 from error
    chosen = destination_of(party)
    context = {
        "provider": provider,
        "dates": dates,
        # Dates, not instants: an instant would be shown in the viewer's zone, and midnight UTC is yesterday in New York.
        "since": since.date(),
        "until": (until - DAY).date(),
        "kind": kind,
        "period": period,
        "period_micro": earnings_total(party, period.starts_at, period.ends_at),
        "before_micro": earnings_total(party, *_before(period)),
        "accruing_micro": accruing_micro,
        "running": running,
        "earnings": found,
        "gpu_rows": _gpu_rows(provider, found),
        "days": [(day.date(), micro) for day, micro in sorted(days.items(), reverse=True)[:DAYS_SHOWN]],
        "chart": bar_chart(_bars(days, since, until)),
        "fee_percent": fee_percent(fee_bps_at(now)),
        "pending_micro": pending_of(party),
        "maturing": earnings_maturing(party),
        "frozen": frozen_of(party),
        "disputes": disputes_of_provider(provider),
        "payable_micro": payable_of(party),
        "minimum_micro": minimum_of(party, now),
        "in_flight_micro": in_flight_of(party),
        "next_payout": next_payout_on(party, now),
        "why_not_yet": why_not_yet(party, now),
        "payouts": payouts,
        "next_url": f"?cursor={cursor}#payouts" if cursor else "",
        "previous_url": f"{request.path}#payouts" if request.GET.get("cursor") else "",
        "factors": factors_of(provider, now=now),
        "destination": chosen,
        "destination_shown": destination_shown(chosen) if chosen else "",
        "cooling": _cooling(party, now),
        "wallet": wallet or WalletForm(),
        "signature": signature,
        "challenge": text,
        "bank": bank or BankAccountForm(),
        "bank_offered": bool(schemes_offered()),
    }
    refused = any(form is not None and form.errors for form in (wallet, signature, bank)) or dates.errors
    return render(request, "marketplace/earnings.html", context, status=400 if refused else 200)


def _range(dates: DateRangeForm, period: Period) -> tuple[datetime, datetime]:
    """[first instant, first instant after the last day) in UTC, the books' zone; the running period unless asked otherwise."""
    if dates.is_bound and dates.is_valid():
        first: date = dates.cleaned_data["since"]
        last: date = dates.cleaned_data["until"]
        return day_starts(first), day_starts(last + DAY)
    dates.initial = {"since": period.start, "until": period.last_day}
    return period.starts_at, period.ends_at


def _before(period: Period) -> tuple[datetime, datetime]:
    """The period before the running one."""
    earlier = period_current(period.kind, period.start - DAY)
    return earlier.starts_at, earlier.ends_at


def _bars(days: Mapping[datetime, int], since: datetime, until: datetime) -> list[tuple[str, float]]:
    """A bar per UTC day, or per week from Monday where there would be too many; a day without earnings is 0."""
    each = DAY if (until - since) <= BARS_MAX * DAY else 7 * DAY
    bars, at = [], since
    while at < until:
        end = min(at + each - (timedelta(days=at.weekday()) if each > DAY else timedelta(0)), until)
        micro = sum(amount for day, amount in days.items() if at <= day < end)
        bars.append((f"{formats.date_format(at.date(), 'DATE_FORMAT')}: {format_usdc(micro)} USDC", float(micro)))
        at = end
    return bars


def _cooling(party: Party, now: datetime) -> bool:
    found = destination_of(party)
    return found is not None and found.usable_from > now


def _gpu_rows(provider: Provider, found: Earnings) -> list[dict[str, Any]]:
    """What each card earned, with the card itself where it still is one of the provider's."""
    ids = [row.gpu_id for row in found.by_gpu]
    gpus = Gpu.objects.filter(machine__provider=provider).select_related("machine").in_bulk(ids)
    return [{"earned": row, "gpu": gpus.get(row.gpu_id)} for row in found.by_gpu]


@login_required
@require_POST
def destination(request: PersonRequest) -> HttpResponse:
    """Two steps on one page: an address gets a text to sign, its signature makes it the payout wallet."""
    provider, now = provider_or_404(request), clock.now()
    identity_confirm(request)
    if "signature" in request.POST:
        signature = SignatureForm(request.POST)
        if signature.is_valid():
            try:
                destination_prove(party=provider.party, now=now, **signature.cleaned_data)
            except DomainError as error:
                add_domain_error(signature, error)
            else:
                messages.success(request, _("The payout wallet is proven. It can be used after its cooling-down time."))
                return redirect("marketplace_earnings")
        return _page(request, provider, signature=signature)
    wallet = WalletForm(request.POST)
    if wallet.is_valid():
        try:
            challenge = destination_challenge(party=provider.party, address=wallet.cleaned_data["address"], now=now)
        except DomainError as error:
            add_domain_error(wallet, error)
        else:
            ready = SignatureForm(initial={"address": challenge.address})
            return _page(request, provider, signature=ready, text=challenge.text)
    return _page(request, provider, wallet=wallet)


@login_required
@require_POST
def bank_destination(request: PersonRequest) -> HttpResponse:
    """A bank account becomes the payout destination; whose it is was approved with the application."""
    provider, bank = provider_or_404(request), BankAccountForm(request.POST)
    identity_confirm(request)
    scheme = next(iter(schemes_offered()), "")
    if bank.is_valid():
        try:
            destination_bank_set(
                party=provider.party, account=bank.cleaned_data["account"], scheme=scheme, now=clock.now()
            )
        except DomainError as error:
            add_domain_error(bank, error)
        else:
            messages.success(request, _("The bank account is set. It can be used after its cooling-down time."))
            return redirect("marketplace_earnings")
    return _page(request, provider, bank=bank)
