"""The provider's benchmark tab."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.models import User
from accounts.selectors import party_of
from benchmarks import services
from benchmarks.selectors import benchmark_cards, gpu_of_provider
from core import clock
from core.errors import DomainError
from providers.selectors import provider_of


class SignedIn(HttpRequest):
    """A request behind login_required."""

    user: User


@login_required
@require_safe
def benchmarks(request: SignedIn) -> HttpResponse:
    """Every card of the provider: figures against limits, why it is not offered, what to do, and its last runs."""
    provider = provider_of(party_of(request.user))
    if provider is None:
        raise Http404
    machines = benchmark_cards(provider, now=clock.now())
    return render(request, "benchmarks/benchmarks.html", {"machines": machines})


@login_required
@require_POST
def retest(request: SignedIn, gpu_id: UUID) -> HttpResponse:
    gpu = gpu_of_provider(provider_of(party_of(request.user)), gpu_id)
    if gpu is None:
        raise Http404
    try:
        services.run_retest(gpu=gpu, actor=request.user, now=clock.now())
    except DomainError as error:
        messages.error(request, error.message)
    else:
        messages.success(
            request, _("The retest is on its way. It starts when the GPU is free and takes a few minutes.")
        )
    return redirect("benchmarks_benchmarks")
