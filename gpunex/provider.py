"""/provider/: a provider's overview. It reads every app, so it lives at the top: machines, what needs doing, the token."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.http import PersonRequest
from accounts.selectors import party_of
from billing.selectors import destination_of, payable_of, pending_of
from core import clock
from core.errors import DomainError
from marketplace.selectors import FleetFilters, fleet_figures, fleet_page, fleet_rows
from marketplace.selectors.machines import FleetFigures, FleetPage
from providers.models import Provider
from providers.selectors import machines_of, provider_of
from providers.services import enrolment_token_issue
from providers.services.tokens import TOKEN_DAYS
from reliability.selectors import score_parts


@dataclass(frozen=True)
class ToDo:
    """One thing that keeps money away, and where it is mended."""

    about: str
    text: str
    url: str


SHOWN = 10
"""Machines in the table and in the list of what needs doing; the rest is a click away, on the fleet's page."""


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def overview(request: PersonRequest) -> HttpResponse:
    """A POST makes a new enrolment token and shows it this once. Who is no provider is shown how to become one."""
    provider = provider_of(party_of(request.user))
    if provider is None:
        return redirect("accounts_roles")
    secret = _token(request, provider) if request.method == "POST" else ""
    figures = fleet_figures(provider)
    attention = fleet_page(provider, FleetFilters(state="attention"), most=SHOWN)
    context = {
        "provider": provider,
        "rows": fleet_rows(list(machines_of(provider)[:SHOWN])),
        "figures": figures,
        "online": figures.by_state["online"],
        "todos": _todos(provider, figures, attention),
        "more_todos": max(0, attention.found - SHOWN),
        "room": max(0, provider.approved_machines - figures.machines),
        "score": score_parts(provider),
        "pending_micro": pending_of(provider.party),
        "payable_micro": payable_of(provider.party),
        "secret": secret,
        "days": TOKEN_DAYS,
    }
    response = render(request, "gpunex/provider.html", context)
    if secret:
        response["Cache-Control"] = "no-store"
    return response


def _token(request: PersonRequest, provider: Provider) -> str:
    try:
        _row, secret = enrolment_token_issue(provider=provider, actor=request.user, now=clock.now())
    except DomainError as error:
        messages.error(request, error.message)
        return ""
    return secret


def _todos(provider: Provider, figures: FleetFigures, attention: FleetPage) -> list[ToDo]:
    """What keeps money away from each machine, the worst thing only; its page says the rest."""
    found = []
    for row in attention.rows:
        worst = row.standings[0]
        page = reverse("marketplace_machine", args=[row.machine.pk])
        url = reverse(worst.url_name) if worst.url_name else page
        found.append(ToDo(row.machine.name, f"{worst.what} {worst.next}".strip(), url))
    if figures.machines and destination_of(provider.party) is None:
        text = _("Set a payout wallet or a bank account: without one nothing can be paid out.")
        found.append(ToDo(_("Earnings"), text, reverse("marketplace_earnings") + "#wallet"))
    return found
