"""/billing/: a customer's balance, what is set aside and for which jobs, paying in, spend limits, history, documents."""

from __future__ import annotations

from allauth.core.exceptions import ReauthenticationRequired
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.http import PersonRequest
from accounts.reauthentication import identity_confirmed
from accounts.selectors import party_of
from billing.forms import DepositForm
from billing.selectors import Spending, balance_of, customer_history, holds_of, spending_of
from billing.selectors.documents import MONTHLY_STATEMENTS, RECEIPTS, documents_of
from billing.services import REAUTHENTICATION_REQUIRED, deposit_intent_open, spend_limits_set
from core import clock
from core.errors import DomainError, Invalid
from core.forms import add_domain_error
from core.money import format_usdc
from marketplace.forms import SpendLimitsForm
from marketplace.models.rental import HOLD_PREFIX
from marketplace.selectors.history import history_told, holds_told

DOCUMENTS_SHOWN = 5
"""On the first page; the rest are a click away."""


@login_required
@require_safe
def billing(request: PersonRequest) -> HttpResponse:
    return _page(request, DepositForm())


def _page(
    request: PersonRequest, form: DepositForm, *, limits: SpendLimitsForm | None = None, status: int = 200
) -> HttpResponse:
    party = party_of(request.user)
    try:
        rows, cursor = customer_history(party, cursor=request.GET.get("cursor", ""))
    except Invalid as error:
        raise Http404 from error
    receipts, more_receipts = documents_of(party, RECEIPTS, limit=DOCUMENTS_SHOWN)
    statements, more_statements = documents_of(party, MONTHLY_STATEMENTS, limit=DOCUMENTS_SHOWN)
    spending = spending_of(party, clock.now(), holds=HOLD_PREFIX)
    context = {
        "form": form,
        "spending": spending,
        "limits": limits or SpendLimitsForm(initial=_limits(spending)),
        "balance": balance_of(party),
        "holds": holds_told(holds_of(party)),
        "history": history_told(rows),
        "receipts": receipts,
        "statements": statements,
        "more_documents": more_receipts or more_statements,
        "next_url": f"?cursor={cursor}" if cursor else "",
        "previous_url": "/billing/" if request.GET.get("cursor") else "",
    }
    return render(request, "billing/billing.html", context, status=status)


def _limits(spending: list[Spending]) -> dict[str, str]:
    """The limits as one would type them."""
    return {
        each.period.value: format_usdc(each.limit_micro).replace(",", "")
        for each in spending
        if each.limit_micro is not None
    }


@login_required
@require_POST
def limits_set(request: PersonRequest) -> HttpResponse:
    """Set both spend limits. To raise one the password is asked for; then the same request is made again by itself."""
    form = SpendLimitsForm(request.POST)
    if form.is_valid():
        try:
            changed = spend_limits_set(
                party=party_of(request.user),
                limits=form.cleaned_data,
                actor=request.user,
                reauthenticated=identity_confirmed(request),
                now=clock.now(),
            )
        except DomainError as error:
            if error.code == REAUTHENTICATION_REQUIRED:
                raise ReauthenticationRequired from error
            add_domain_error(form, error)
        else:
            messages.success(request, _("The spend limits are set.") if changed else _("Nothing has changed."))
            return redirect("/billing/#limits")
    return _page(request, DepositForm(), limits=form, status=400)


@login_required
@require_POST
def deposit_open(request: PersonRequest) -> HttpResponse:
    form = DepositForm(request.POST)
    if form.is_valid():
        amount_micro = form.cleaned_data["amount_micro"]
        try:
            intent = deposit_intent_open(party=party_of(request.user), amount_micro=amount_micro, now=clock.now())
        except DomainError as error:
            add_domain_error(form, error)
        else:
            return redirect("billing_deposit", intent_id=intent.pk)
    return _page(request, form, status=400)
