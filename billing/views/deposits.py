"""/billing/deposits/: a payment to make, and what has arrived by it."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe

from accounts.http import PersonRequest
from accounts.selectors import party_of
from billing import services
from billing.models import DepositIntent
from billing.selectors.deposits import intent_of, pay_qr, progress_of


@login_required
@require_safe
def deposit(request: PersonRequest, intent_id: UUID) -> HttpResponse:
    intent = _intent(request, intent_id)
    link = services.deposit_link(intent)
    context = {
        "intent": intent,
        "link": link,
        # Our own drawing of our own link: segno writes nothing but rectangles.
        "qr": mark_safe(pay_qr(link)) if link else "",  # noqa: S308
        "progress": progress_of(intent),
    }
    return render(request, "billing/deposit.html", context)


@login_required
@require_safe
def deposit_status(request: PersonRequest, intent_id: UUID) -> HttpResponse:
    """What has arrived so far: the part of the deposit page that asks again every few seconds until all of it is there."""
    intent = _intent(request, intent_id)
    return render(request, "billing/_deposit_status.html", {"intent": intent, "progress": progress_of(intent)})


def _intent(request: PersonRequest, intent_id: UUID) -> DepositIntent:
    intent = intent_of(party_of(request.user), intent_id)
    if intent is None:
        raise Http404
    return intent
