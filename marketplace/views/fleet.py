"""/provider/machines/: the whole fleet, filtered by state, label and name; one verb on many machines at once."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST, require_safe

from accounts.http import PersonRequest
from benchmarks.services import machine_retest
from core import clock
from core.bulk import Done, each
from core.errors import DomainError, Invalid
from marketplace.selectors import FleetFilters, fleet_figures, fleet_page
from marketplace.selectors.machines import STATES
from marketplace.views.provider import machine_or_404, provider_or_404
from providers.labels import labels_clean, labels_split
from providers.models import Machine, Provider
from providers.selectors import machines_of
from providers.services import machine_drain, machine_label, machine_label_add, machine_rename, machine_resume

STATE_LABELS: dict[str, str | Promise] = {
    "": _("All"),
    "attention": _("Need attention"),
    "online": _("Online"),
    "offline": _("Not online"),
    "draining": _("Draining"),
}
REASONS_SHOWN = 20
"""Refusals told one by one; what is beyond is counted."""


@login_required
@require_safe
def fleet(request: PersonRequest) -> HttpResponse:
    provider = provider_or_404(request)
    filters = _filters(request)
    try:
        page = fleet_page(provider, filters, cursor=request.GET.get("cursor", ""))
    except Invalid:
        return redirect(_url(filters))  # an old or mangled address: the first page
    figures = fleet_figures(provider)
    counts = {"": figures.machines, **figures.by_state}
    context = {
        "provider": provider,
        "page": page,
        "figures": figures,
        "filters": filters,
        "states": [
            (_url(FleetFilters(name, filters.label, filters.name)), label, counts[name], name == filters.state)
            for name, label in STATE_LABELS.items()
        ],
        "next_url": _url(filters, cursor=page.next_cursor) if page.next_cursor else "",
        "previous_url": _url(filters) if request.GET.get("cursor") else "",
        "here": request.get_full_path(),
    }
    return render(request, "marketplace/fleet.html", context)


def _filters(request: PersonRequest) -> FleetFilters:
    """What the address asks for; a state nobody knows is none, so that an old link shows the fleet."""
    state = request.GET.get("state", "")
    return FleetFilters(
        state=state if state in STATES else "",
        label=request.GET.get("label", "")[:64],
        name=request.GET.get("name", "").strip()[:64],
    )


def _url(filters: FleetFilters, *, cursor: str | None = None) -> str:
    asked = {"state": filters.state, "label": filters.label, "name": filters.name, "cursor": cursor or ""}
    query = urlencode({name: value for name, value in asked.items() if value})
    return reverse("marketplace_fleet") + (f"?{query}" if query else "")


Bulk = Callable[[list[Machine], PersonRequest], Done[Machine]]


def _drain(machines: list[Machine], request: PersonRequest) -> Done[Machine]:
    return each(machines, lambda machine: machine_drain(machine=machine, actor=request.user, now=clock.now()))


def _resume(machines: list[Machine], request: PersonRequest) -> Done[Machine]:
    return each(machines, lambda machine: machine_resume(machine=machine, actor=request.user, now=clock.now()))


def _retest(machines: list[Machine], request: PersonRequest) -> Done[Machine]:
    return each(machines, lambda machine: machine_retest(machine=machine, actor=request.user, now=clock.now()))


def _label(machines: list[Machine], request: PersonRequest) -> Done[Machine]:
    labels = labels_clean(labels_split(request.POST.get("labels", "")))
    if not labels:
        raise Invalid.field("labels", found="", allowed=gettext("one or more labels"))
    return each(
        machines,
        lambda machine: machine_label_add(machine=machine, labels=labels, actor=request.user, now=clock.now()),
    )


VERBS: dict[str, Bulk] = {"drain": _drain, "resume": _resume, "retest": _retest, "label": _label}


@login_required
@require_POST
def fleet_act(request: PersonRequest, action: str) -> HttpResponse:
    """One verb on the machines that were ticked. Each for itself: whoever is refused says why, the others go on."""
    provider = provider_or_404(request)
    verb = VERBS.get(action)
    if verb is None:
        raise Http404
    machines = _chosen(request, provider)
    if not machines:
        messages.warning(request, gettext("No machine was ticked, so nothing was done."))
        return redirect(_back(request))
    try:
        result = verb(machines, request)
    except DomainError as error:
        messages.error(request, error.message)
        return redirect(_back(request))
    _tell(request, action, result)
    return redirect(_back(request))


def _chosen(request: PersonRequest, provider: Provider) -> list[Machine]:
    """The ticked machines, by name. One that is not the viewer's is not there: then nothing at all is done."""
    try:
        wanted = {UUID(text) for text in request.POST.getlist("machine")}
    except ValueError:
        raise Http404 from None
    rows = machines_of(provider, live=False).filter(pk__in=wanted).select_related("provider__party")
    machines = list(rows.order_by("name", "pk"))
    if len(machines) != len(wanted):
        raise Http404
    return machines


def _back(request: PersonRequest) -> str:
    """The page the form stood on, if it is one of ours."""
    here, base = request.POST.get("here", ""), reverse("marketplace_fleet")
    return here if here.startswith(base) else base


def _tell(request: PersonRequest, action: str, result: Done[Machine]) -> None:
    count = len(result.done)
    if count:
        messages.success(request, _done_words(action, count) % {"count": count})
    for refused in result.refused[:REASONS_SHOWN]:
        messages.warning(request, f"{refused.subject.name}: {refused.why}")
    more = len(result.refused) - REASONS_SHOWN
    if more > 0:
        text = ngettext("%(count)d more was refused.", "%(count)d more were refused.", more)
        messages.warning(request, text % {"count": more})


def _done_words(action: str, count: int) -> str:
    if action == "drain":
        return ngettext(
            "%(count)d machine takes no new jobs; running ones finish.",
            "%(count)d machines take no new jobs; running ones finish.",
            count,
        )
    if action == "resume":
        return ngettext("%(count)d machine takes jobs again.", "%(count)d machines take jobs again.", count)
    if action == "retest":
        return ngettext(
            "%(count)d machine is measured again as soon as its GPUs are free.",
            "%(count)d machines are measured again as soon as their GPUs are free.",
            count,
        )
    return ngettext("%(count)d machine has the label.", "%(count)d machines have the label.", count)


@login_required
@require_POST
def machine_describe(request: PersonRequest, machine_id: UUID) -> HttpResponse:
    """Name and labels of one machine."""
    _provider, machine = machine_or_404(request, machine_id)
    now = clock.now()
    try:
        labels = labels_clean(labels_split(request.POST.get("labels", "")))
        machine_rename(machine=machine, name=request.POST.get("name", ""), actor=request.user, now=now)
        machine_label(machine=machine, labels=labels, actor=request.user, now=now)
    except DomainError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, gettext("Name and labels are saved."))
    return redirect("marketplace_machine", machine_id=machine_id)
