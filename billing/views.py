"""/billing/: a customer's balance, what is set aside, paying in, history."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_POST, require_safe

from accounts.http import PersonRequest
from accounts.selectors import party_of
from billing import services
from billing.forms import DepositForm
from billing.models import DepositIntent
from billing.selectors import balance_of, customer_history, holds_of
from billing.selectors.deposits import deposits_of_intent, intent_of, pay_qr
from core import clock
from core.errors import DomainError, Invalid
from core.forms import add_domain_error


@login_required
@require_safe
def billing(request: PersonRequest) -> HttpResponse:
    return _page(request, DepositForm())


def _page(request: PersonRequest, form: DepositForm, *, status: int = 200) -> HttpResponse:
    party = party_of(request.user)
    try:
        history, cursor = customer_history(party, cursor=request.GET.get("cursor", ""))
    except Invalid as error:
        raise Http404 from error
    context = {
        "form": form,
        "balance": balance_of(party),
        "holds": holds_of(party),
        "history": history,
        "next_url": f"?cursor={cursor}" if cursor else "",
        "previous_url": "/billing/" if request.GET.get("cursor") else "",
    }
    return render(request, "billing/billing.html", context, status=status)


@login_required
@require_POST
def deposit_open(request: PersonRequest) -> HttpResponse:
    form = DepositForm(request.POST)
    if form.is_valid():
        amount_micro = form.cleaned_data["amount_micro"]
        try:
            intent = services.deposit_intent_open(
                party=party_of(request.user), amount_micro=amount_micro, now=clock.now()
            )
        except DomainError as error:
            add_domain_error(form, error)
        else:
            return redirect("billing_deposit", intent_id=intent.pk)
    return _page(request, form, status=400)


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
        "deposits": deposits_of_intent(intent),
    }
    return render(request, "billing/deposit.html", context)


@login_required
@require_safe
def deposit_status(request: PersonRequest, intent_id: UUID) -> HttpResponse:
    """What has arrived so far: the part of the deposit page that asks again every few seconds."""
    intent = _intent(request, intent_id)
    return render(request, "billing/_deposit_status.html", {"intent": intent, "deposits": deposits_of_intent(intent)})


def _intent(request: PersonRequest, intent_id: UUID) -> DepositIntent:
    intent = intent_of(party_of(request.user), intent_id)
    if intent is None:
        raise Http404
    return intent
