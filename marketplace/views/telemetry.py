"""A machine's telemetry as charts: small ones, six per GPU, over two hours (live), a day, a week or 90 days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import redis
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.template.defaultfilters import filesizeformat
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from accounts.http import PersonRequest
from core import clock
from core.charts import Chart, line_chart
from marketplace.views.provider import machine_or_404
from providers.models import Gpu, Machine
from reliability.selectors import Series, telemetry_series
from reliability.telemetry import SPANS, Span

RANGES: dict[str, str | Promise] = {
    "2h": _("2 hours, live"),
    "24h": _("24 hours"),
    "7d": _("7 days"),
    "90d": _("90 days"),
}
LIVE = "2h"
WARM_C = 100.0
"""The top of the temperature chart: cards shut down before they get there."""


@dataclass(frozen=True)
class Metric:
    """How one metric is drawn and said. ``top``: the value at the upper edge, by what the card says of itself."""

    name: str
    label: str | Promise
    text: Callable[[float], str]
    top: Callable[[Gpu], float | None]


def _detail(name: str) -> Callable[[Gpu], float | None]:
    return lambda gpu: gpu.details.get(name)


METRICS = (
    Metric("utilization_percent", _("Busy"), lambda value: f"{value:.0f} %", lambda _gpu: 100.0),
    Metric("memory_used_bytes", _("Memory used"), filesizeformat, lambda gpu: gpu.memory_bytes),
    Metric("temperature_c", _("Temperature"), lambda value: f"{value:.0f} °C", lambda _gpu: WARM_C),
    Metric("power_w", _("Power"), lambda value: f"{value:.0f} W", _detail("power_limit_w")),
    Metric("sm_clock_mhz", _("Processor clock"), lambda value: f"{value:.0f} MHz", lambda _gpu: None),
    Metric("memory_clock_mhz", _("Memory clock"), lambda value: f"{value:.0f} MHz", lambda _gpu: None),
)


@dataclass(frozen=True)
class Figure:
    """One small chart; ``chart`` null: nothing was known in the whole range. ``summary`` is what a reader hears."""

    label: str
    chart: Chart | None
    latest: str
    peak: str
    summary: str


@dataclass(frozen=True)
class Card:
    gpu: Gpu
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Panel:
    """``away``: raw readings cannot be asked for at the moment; the longer ranges can."""

    span: str
    ranges: Sequence[tuple[str, str | Promise, bool]]
    cards: Sequence[Card]
    live: bool
    away: bool
    first: datetime
    last: datetime


def telemetry_panel(machine: Machine, *, span: str, now: datetime) -> Panel:
    """The charts of a machine's cards. An unknown range is the live one."""
    chosen = SPANS.get(span, SPANS[LIVE])
    gpus = list(machine.gpus.all())
    away = False
    try:
        series = telemetry_series(gpus, span=chosen, now=now)
    except redis.RedisError:
        series, away = [], True
    return Panel(
        span=chosen.name,
        ranges=[(name, label, name == chosen.name) for name, label in RANGES.items()],
        cards=[Card(each.gpu, [_figure(metric, each, chosen) for metric in METRICS]) for each in series],
        live=chosen.name == LIVE,
        away=away,
        first=chosen.start(now),
        last=now,
    )


def _figure(metric: Metric, series: Series, span: Span) -> Figure:
    values = series.means[metric.name]
    known = [value for value in values if value is not None]
    label = str(metric.label)
    if not known:
        return Figure(label, None, "", "", gettext("%(metric)s: no readings") % {"metric": label})
    peak = max([value for value in series.peaks.get(metric.name, ()) if value is not None], default=max(known))
    top = max(metric.top(series.gpu) or 0, peak) or 1.0
    chart = line_chart(list(zip(series.at, values, strict=True)), lowest=0, highest=top)
    latest, highest = metric.text(known[-1]), metric.text(peak)
    summary = gettext("%(metric)s over %(range)s: latest %(latest)s, highest %(highest)s") % {
        "metric": label,
        "range": RANGES[span.name],
        "latest": latest,
        "highest": highest,
    }
    return Figure(label, chart, latest, highest, summary)


@login_required
@require_safe
def telemetry(request: PersonRequest, machine_id: UUID) -> HttpResponse:
    """The charts alone, for the page that is open to fetch anew."""
    _provider, machine = machine_or_404(request, machine_id)
    panel = telemetry_panel(machine, span=request.GET.get("span", LIVE), now=clock.now())
    return render(request, "marketplace/_telemetry.html", {"machine": machine, "panel": panel})
