"""The market, for everybody: search, and one listing with why it ranks where it does."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from core import clock
from core.errors import Invalid, NotFound
from marketplace.selectors import (
    Filters,
    Page,
    filters_read,
    filters_to_relax,
    listing_of,
    listings_search,
    price_history,
    rank_reason,
)
from providers.models import GpuModel
from providers.places import COUNTRIES, REGIONS

HISTORY = timedelta(days=90)
SORT_LABELS = {
    "rank": _("Best first"),
    "price": _("Lowest price"),
    "performance": _("Price per performance"),
    "reliability": _("Reliability"),
}
MEMORY_CHOICES = (16, 24, 40, 48, 80)


@require_safe
def market(request: HttpRequest) -> HttpResponse:
    given = request.GET.dict()
    errors: dict[str, list[str]] = {}
    filters = Filters()
    page = Page([], None, 0)
    try:
        filters = filters_read(given)
        page = listings_search(filters, cursor=given.get("cursor", ""))
    except Invalid as error:
        errors = error.fields
    relax = {}
    if not page.listings and not errors:
        relax = {name: f"?{urlencode(each.query())}" for name, each in filters_to_relax(filters).items()}
    # On a short page a featured row would stand twice within sight; it keeps its place on every other page.
    on_top = {each.pk for each in page.featured}
    context = {
        "filters": filters,
        "rows": [each for each in page.listings if each.pk not in on_top],
        "given": given,
        "errors": errors,
        "page": page,
        "next_url": _next_url(filters, page),
        "relax": relax,
        "models": list(GpuModel.objects.order_by("name")),
        "regions": REGIONS.items(),
        "countries": sorted(COUNTRIES),
        "memories": MEMORY_CHOICES,
        "sorts": SORT_LABELS.items(),
    }
    template = "marketplace/_listings.html" if request.headers.get("HX-Request") else "marketplace/market.html"
    response = render(
        request, template, context, status=400 if errors and not request.headers.get("HX-Request") else 200
    )
    response["Vary"] = "HX-Request"
    return response


def _next_url(filters: Filters, page: Page) -> str:
    return f"?{urlencode({**filters.query(), 'cursor': page.next_cursor})}" if page.next_cursor else ""


@require_safe
def listing(request: HttpRequest, listing_id: UUID) -> HttpResponse:
    try:
        row = listing_of(listing_id)
    except NotFound:
        raise Http404 from None
    now = clock.now()
    context = {
        "listing": row,
        "why": rank_reason(row),
        "history": price_history(row, since=now - HISTORY),
        "region": REGIONS.get(row.region, row.region),
    }
    return render(request, "marketplace/listing.html", context)
