"""/provider/pricing/: rates per model with what others ask, each machine's listing and why it is hidden."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.http import PersonRequest
from billing.selectors import fee_bps_at
from core import clock
from core.errors import DomainError
from core.forms import add_domain_error
from core.money import format_usdc
from marketplace import services, visibility
from marketplace.forms import RateForm
from marketplace.models import Listing
from marketplace.selectors import listings_of_provider, price_suggestion, rank_reason, rate_current, rate_history
from marketplace.views.provider import fee_percent, provider_or_404
from providers.models import GpuModel, Machine, Provider
from providers.places import REGIONS
from providers.schedules import windows_json
from providers.selectors import schedules_of


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def pricing(request: PersonRequest) -> HttpResponse:
    provider, now = provider_or_404(request), clock.now()
    refused: tuple[str, RateForm] | None = None
    if request.method == "POST":
        model, machine = _posted(request, provider)
        form = RateForm(request.POST)
        if form.is_valid():
            try:
                rate = services.rate_set(
                    provider=provider,
                    gpu_model=model,
                    machine=machine,
                    rate_micro=form.cleaned_data["rate"],
                    actor=request.user,
                    now=now,
                )
            except DomainError as error:
                add_domain_error(form, error)
            else:
                price = format_usdc(rate.rate_micro or 0)
                messages.success(
                    request,
                    _("%(model)s now costs %(price)s USDC per GPU-hour.") % {"model": model.name, "price": price},
                )
                return redirect("marketplace_pricing")
        refused = (model.slug, form)
    listings = listings_of_provider(provider)
    context = {
        "provider": provider,
        "fee_percent": fee_percent(fee_bps_at(now)),
        "models": [_model_row(provider, model, rows, refused) for model, rows in _by_model(listings)],
        "schedules": _schedules(provider),
    }
    return render(request, "marketplace/pricing.html", context, status=400 if refused else 200)


def _posted(request: PersonRequest, provider: Provider) -> tuple[GpuModel, Machine | None]:
    model = GpuModel.objects.filter(slug=request.POST.get("model", "")).first()
    if model is None:
        raise Http404
    text = request.POST.get("machine", "")
    if not text:
        return model, None
    try:
        machine = Machine.objects.filter(provider=provider, pk=UUID(text)).first()
    except ValueError:
        machine = None
    if machine is None:
        raise Http404
    return model, machine


def _by_model(listings: list[Listing]) -> list[tuple[GpuModel, list[Listing]]]:
    found: dict[UUID, tuple[GpuModel, list[Listing]]] = {}
    for listing in listings:
        found.setdefault(listing.gpu_model_id, (listing.gpu_model, []))[1].append(listing)
    return list(found.values())


def _model_row(
    provider: Provider, model: GpuModel, listings: list[Listing], refused: tuple[str, RateForm] | None
) -> dict[str, Any]:
    rate = rate_current(provider_id=provider.pk, gpu_model_id=model.pk)
    suggestion = price_suggestion(gpu_model_id=model.pk, region=provider.region)
    initial = {"rate": format_usdc(rate.rate_micro).replace(",", "")} if rate and rate.rate_micro else None
    form = refused[1] if refused and refused[0] == model.slug else RateForm(initial=initial, prefix=None)
    return {
        "model": model,
        "rate": rate,
        "form": form,
        "suggestion": suggestion,
        "suggestion_region": REGIONS.get(suggestion[0], "") if suggestion else "",
        "history": rate_history(provider_id=provider.pk, gpu_model_id=model.pk, limit=10),
        "listings": [
            {
                "listing": each,
                "why_hidden": visibility.SENTENCES.get(each.hidden_reason, ""),
                "why_ranked": rank_reason(each) if each.visible else None,
            }
            for each in listings
        ],
    }


def _schedules(provider: Provider) -> list[dict[str, Any]]:
    machines = list(
        Machine.objects.filter(provider=provider).exclude(status__in=["retired", "revoked"]).order_by("name")
    )
    found = schedules_of(machines, clock.now())
    return [
        {"machine": machine, "schedule": found[machine.pk], "windows": windows_json(found[machine.pk].windows)}
        for machine in machines
    ]
