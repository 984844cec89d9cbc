"""/provider/: a provider's overview. It reads every app, so it lives at the top: machines, what needs doing, the token."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.http import PersonRequest
from accounts.selectors import party_of
from billing.selectors import destination_of, payable_of, pending_of
from core import clock
from core.errors import DomainError
from marketplace import visibility
from marketplace.models import Listing
from marketplace.selectors import listings_of_provider
from providers.models import Gpu, Machine, Provider
from providers.selectors import machines_of, provider_of
from providers.services import enrolment_token_issue
from providers.services.tokens import TOKEN_DAYS
from reliability.models import MachineHealth
from reliability.selectors import health_of, score_parts


@dataclass(frozen=True)
class MachineRow:
    """A machine as its owner sees it here. ``health`` null: never heard of."""

    machine: Machine
    gpus: list[Gpu]
    health: MachineHealth | None
    listings: list[Listing]

    @property
    def state(self) -> str:
        return self.health.state if self.health else "never"

    @property
    def cards(self) -> list[tuple[str, str, int]]:
        """(model, status, how many), equal cards together."""
        found = Counter((gpu.model.name if gpu.model else gpu.reported_name, gpu.status) for gpu in self.gpus)
        return [(name, status, count) for (name, status), count in sorted(found.items())]


@dataclass(frozen=True)
class ToDo:
    """One thing that keeps money away, and where it is mended."""

    about: str
    text: str | Promise
    url: str


PAGES = {
    "no_rate": "marketplace_pricing",
    "outside_schedule": "marketplace_pricing",
}
"""Where a reason for being hidden is mended, if not on the machine's own page."""
PATIENCE = frozenset({"outside_schedule", "draining", "machine_retired"})
"""Hidden because the provider wants it so: nothing to do."""


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def overview(request: PersonRequest) -> HttpResponse:
    """A POST makes a new enrolment token and shows it this once. Who is no provider is shown how to become one."""
    provider = provider_of(party_of(request.user))
    if provider is None:
        return redirect("accounts_roles")
    secret = _token(request, provider) if request.method == "POST" else ""
    rows = _rows(provider)
    context = {
        "provider": provider,
        "rows": rows,
        "online": sum(row.state == "online" for row in rows),
        "gpus": sum(len(row.gpus) for row in rows),
        "todos": _todos(provider, rows),
        "room": max(0, provider.approved_machines - len(rows)),
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


def _rows(provider: Provider) -> list[MachineRow]:
    machines = list(machines_of(provider))
    health = health_of(machine.pk for machine in machines)
    listings: dict[object, list[Listing]] = {}
    for listing in listings_of_provider(provider):
        listings.setdefault(listing.machine_id, []).append(listing)
    return [
        MachineRow(machine, list(machine.gpus.all()), health.get(machine.pk), listings.get(machine.pk, []))
        for machine in machines
    ]


def _todos(provider: Provider, rows: list[MachineRow]) -> list[ToDo]:
    found: list[ToDo] = []
    for row in rows:
        seen: set[str] = set()
        for listing in row.listings:
            if listing.visible or listing.hidden_reason in PATIENCE | seen:
                continue
            seen.add(listing.hidden_reason)
            text = visibility.SENTENCES.get(listing.hidden_reason, "")
            found.append(ToDo(row.machine.name, text, _where(listing)))
        if not row.listings and row.machine.status == Machine.Status.PENDING_CONFIRMATION:
            found.append(ToDo(row.machine.name, visibility.SENTENCES["not_confirmed"], _page(row.machine)))
    if rows and destination_of(provider.party) is None:
        text = _("Set a payout wallet: without one nothing can be paid out.")
        found.append(ToDo(_("Earnings"), text, reverse("marketplace_earnings") + "#wallet"))
    return found


def _where(listing: Listing) -> str:
    name = PAGES.get(listing.hidden_reason)
    return reverse(name) if name else _page(listing.machine)


def _page(machine: Machine) -> str:
    return reverse("marketplace_machine", args=[machine.pk])
