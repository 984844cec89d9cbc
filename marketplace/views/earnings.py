"""/provider/earnings/: this week live, by GPU and by model, what is pending and payable, payouts, the payout wallet."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.http import PersonRequest
from billing.selectors import (
    Earnings,
    destination_of,
    earnings_by_day,
    earnings_of,
    fee_bps_at,
    in_flight_of,
    next_payout_on,
    payable_of,
    payouts_of,
    pending_of,
    why_not_yet,
)
from billing.services import destination_challenge, destination_prove
from core import clock
from core.errors import DomainError
from core.forms import add_domain_error
from marketplace.forms import DateRangeForm, SignatureForm, WalletForm
from marketplace.views.provider import fee_percent, provider_or_404
from providers.models import Gpu, Provider


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
) -> HttpResponse:
    now, party = clock.now(), provider.party
    dates = DateRangeForm(request.GET or None)
    since, until = _period(dates, now)
    if not dates.is_bound:
        dates = DateRangeForm(initial={"since": since.date(), "until": (until - timedelta(days=1)).date()})
    found = earnings_of(party, since, until)
    context = {
        "provider": provider,
        "dates": dates,
        "since": since,
        "until": until - timedelta(days=1),
        "earnings": found,
        "gpu_rows": _gpu_rows(provider, found),
        "days": earnings_by_day(party, since, until),
        "fee_percent": fee_percent(fee_bps_at(now)),
        "pending_micro": pending_of(party),
        "payable_micro": payable_of(party),
        "in_flight_micro": in_flight_of(party),
        "next_payout": next_payout_on(party, now),
        "why_not_yet": why_not_yet(party, now),
        "payouts": payouts_of(party),
        "destination": destination_of(party),
        "wallet": wallet or WalletForm(),
        "signature": signature,
        "challenge": text,
    }
    refused = (wallet is not None and wallet.errors) or (signature is not None and signature.errors)
    return render(request, "marketplace/earnings.html", context, status=400 if refused else 200)


def _period(dates: DateRangeForm, now: datetime) -> tuple[datetime, datetime]:
    """[first instant, first instant after the last day) in UTC, the books' zone; this week unless asked otherwise."""
    monday = now.astimezone(UTC).date() - timedelta(days=now.astimezone(UTC).weekday())
    chosen = dates.cleaned_data if dates.is_bound and dates.is_valid() else {}
    first: date = chosen.get("since") or monday
    last: date = chosen.get("until") or max(first, now.astimezone(UTC).date())
    return datetime.combine(first, time(), UTC), datetime.combine(last + timedelta(days=1), time(), UTC)


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
