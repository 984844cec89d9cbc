"""/payout-freeze/<token>/: the link in the letter about a new payout destination. No log-in: it may be the stolen one."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from billing import services
from billing.selectors.freezes import freeze_of
from billing.selectors.payouts import destination_shown
from core import clock
from core.errors import NotFound


@sensitive_variables("token")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def freeze(request: HttpRequest, token: str) -> HttpResponse:
    """Looking changes nothing (mail scanners follow links); the button freezes."""
    now = clock.now()
    try:
        link = services.freeze_link_read(token=token, now=now)
        if request.method == "POST":
            services.destination_freeze(token=token, now=now)
    except NotFound as error:
        return render(request, "billing/freeze.html", {"error": error.message}, status=404)
    context = {
        "destination": link.destination,
        "shown": destination_shown(link.destination),
        "expires_at": link.expires_at,
        "frozen": freeze_of(link.destination.party),
    }
    response = render(request, "billing/freeze.html", context)
    response["Referrer-Policy"] = "no-referrer"  # the link is the right to freeze
    return response
