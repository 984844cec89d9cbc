"""The front page, and what people see when something is not there, not theirs or broken."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from core.api.errors import error_body
from marketplace.selectors.figures import market_figures

RACK = [("live", "", "live", "half")[(place * 7 + place // 6) % 4] for place in range(42)]
"""The picture beside the headline: a rack of GPUs, some busy. Decoration, not data."""


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    return render(request, "gpunex/home.html", {"rack": RACK, "figures": market_figures()})


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith(("/api/", "/agent/v1/"))


def denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if _is_api(request):
        return JsonResponse(error_body(request, code="denied", message="This is not allowed."), status=403)
    return render(request, "403.html", status=403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if _is_api(request):
        body = error_body(request, code="not_found", message="There is no such thing here.")
        return JsonResponse(body, status=404)
    return render(request, "404.html", status=404)


def failed(request: HttpRequest) -> HttpResponse:
    """No context processor, no database: this page must work when nothing else does."""
    request_id = getattr(request, "request_id", "")
    if _is_api(request):
        return JsonResponse(error_body(request, code="failed", message="Something broke on our side."), status=500)
    return render(None, "500.html", {"request_id": request_id}, status=500)  # type: ignore[arg-type]
