"""/provider/machines/<id>/: one machine of the viewer's: cards, telemetry, jobs, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import redis
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.http import PersonRequest
from benchmarks.selectors import runs_open, verdict_of
from core import clock
from core.errors import DomainError
from marketplace.selectors import fleet_rows, machine_jobs
from marketplace.views.provider import machine_or_404
from marketplace.views.telemetry import LIVE, telemetry_panel
from providers.models import Gpu, Machine
from providers.selectors import approved_countries, schedule_of
from providers.services import (
    gpu_release,
    gpu_request,
    machine_confirm,
    machine_credential_rotate,
    machine_drain,
    machine_resume,
    machine_retire,
    reenrolment_token_issue,
)
from reliability.selectors import occupied_of, outages_of, seen_last

ACTIONS: dict[str, Callable[..., Machine]] = {
    "confirm": machine_confirm,
    "drain": machine_drain,
    "resume": machine_resume,
    "retire": machine_retire,
    "rotate": machine_credential_rotate,
}
OFFERED = {
    "pending_confirmation": ("confirm", "retire"),
    "active": ("drain", "rotate", "enrol-anew", "retire"),
    "draining": ("resume", "rotate", "enrol-anew", "retire"),
    "quarantined": ("enrol-anew", "retire"),
}
"""What a page offers in which status; the services decide what is allowed."""


@login_required
@require_safe
def machine(request: PersonRequest, machine_id: UUID) -> HttpResponse:
    return _page(request, machine_id)


def _page(request: PersonRequest, machine_id: UUID, *, secret: str = "") -> HttpResponse:
    """The machine's page; ``secret`` is a token to enrol it anew, shown this once."""
    provider, row = machine_or_404(request, machine_id)
    now, gpus = clock.now(), list(row.gpus.all())
    verdicts = verdict_of([gpu.pk for gpu in gpus])
    readings = _telemetry(row)
    context = {
        "machine": row,
        "row": fleet_rows([row])[0],
        "outages": outages_of(row),
        "gpus": [(gpu, verdicts.get(gpu.pk), readings.get(gpu.uuid)) for gpu in gpus],
        "jobs": machine_jobs(provider=provider, machine_id=row.pk),
        "schedule": schedule_of(row, now),
        "actions": OFFERED.get(row.status, ()),
        "occupied": occupied_of(gpu.pk for gpu in gpus),
        "runs": runs_open(gpu.pk for gpu in gpus),
        "panel": telemetry_panel(row, span=request.GET.get("span", LIVE), now=now),
        "countries": approved_countries(provider),
        "secret": secret,
    }
    response = render(request, "marketplace/machine.html", context)
    if secret:
        response["Cache-Control"] = "no-store"
    return response


def _telemetry(machine: Machine) -> dict[str, dict[str, Any]]:
    """{GPU UUID: its latest reading}; empty when nothing was heard or Valkey is away."""
    try:
        readings = seen_last([machine.pk]).get(machine.pk, [])
    except redis.RedisError:
        return {}
    return {reading["uuid"]: reading for reading in readings}


@login_required
@require_POST
def machine_act(request: PersonRequest, machine_id: UUID, action: str) -> HttpResponse:
    _provider, row = machine_or_404(request, machine_id)
    if action == "enrol-anew":
        return _enrol_anew(request, row)
    verb = ACTIONS.get(action)
    if verb is None:
        raise Http404
    more = {"country": request.POST["country"]} if action == "confirm" and request.POST.get("country") else {}
    try:
        verb(machine=row, actor=request.user, now=clock.now(), **more)
    except DomainError as error:
        messages.error(request, error.message)
    else:
        done = {
            "confirm": _("The machine is confirmed as yours."),
            "drain": _("The machine takes no new jobs; running ones finish."),
            "resume": _("The machine takes jobs again."),
            "retire": _("The machine is retired."),
            "rotate": _("The machine changes its credential as soon as it is heard from."),
        }
        messages.success(request, done[action])
    return redirect("marketplace_machine", machine_id=machine_id)


def _enrol_anew(request: PersonRequest, row: Machine) -> HttpResponse:
    try:
        _token, secret = reenrolment_token_issue(machine=row, actor=request.user, now=clock.now())
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("marketplace_machine", machine_id=row.pk)
    return _page(request, row.pk, secret=secret)


@login_required
@require_POST
def gpu_act(request: PersonRequest, machine_id: UUID, gpu_id: UUID, action: str) -> HttpResponse:
    """``request``: ask to add a held card. ``release``: give up one that left the machine."""
    _provider, row = machine_or_404(request, machine_id)
    gpu = Gpu.objects.filter(machine=row, pk=gpu_id).select_related("machine__provider__party").first()
    if gpu is None:
        raise Http404
    try:
        if action == "request":
            gpu_request(gpu=gpu, actor=request.user, note=request.POST.get("note", ""), now=clock.now())
        else:
            gpu_release(gpu=gpu, actor=request.user, now=clock.now())
    except DomainError as error:
        messages.error(request, error.message)
    else:
        asked = _("We look at it and write to you.")
        messages.success(request, asked if action == "request" else _("The card is no longer yours here."))
    return redirect("marketplace_machine", machine_id=machine_id)
