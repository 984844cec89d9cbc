"""The provider's performance tab."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.models import User
from accounts.selectors import party_of
from core import clock
from providers.selectors import provider_of
from reliability.selectors import performance_of


class SignedIn(HttpRequest):
    """A request behind login_required."""

    user: User


@login_required
@require_safe
def performance(request: SignedIn) -> HttpResponse:
    """The reliability score, its three parts, what cost points and when that fades, machine by machine."""
    provider = provider_of(party_of(request.user))
    if provider is None:
        raise Http404
    return render(request, "reliability/performance.html", {"performance": performance_of(provider, now=clock.now())})
