"""/billing/withdrawals/: unspent money back to a wallet of one's own: the wallet, the request, what became of earlier ones."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from accounts.http import PersonRequest
from accounts.reauthentication import identity_confirm
from accounts.selectors import party_of
from billing import services
from billing.forms import SignatureForm, WalletForm, WithdrawalForm
from billing.models import Purpose
from billing.selectors import payouts_page
from billing.selectors.withdrawals import withdrawal_terms
from core import clock
from core.errors import DomainError, Invalid, NotFound
from core.forms import add_domain_error


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def withdrawals(request: PersonRequest) -> HttpResponse:
    if request.method != "POST":
        return _page(request)
    form = WithdrawalForm(request.POST)
    if form.is_valid():
        try:
            services.withdrawal_request(
                party=party_of(request.user),
                amount_micro=form.cleaned_data["amount_micro"],
                request_key=form.cleaned_data["request_key"],
                now=clock.now(),
            )
        except DomainError as error:
            add_domain_error(form, error)
        else:
            messages.success(request, _("The money is reserved. It leaves once two of our people have released it."))
            return redirect("billing_withdrawals")
    return _page(request, form=form)


@login_required
@require_POST
def wallet(request: PersonRequest) -> HttpResponse:
    """Two steps on one page: an address gets a text to sign, its signature makes it the withdrawal wallet."""
    party, now = party_of(request.user), clock.now()
    purpose = Purpose.WITHDRAWAL
    identity_confirm(request)
    if "signature" in request.POST:
        signature = SignatureForm(request.POST)
        if signature.is_valid():
            try:
                services.destination_prove(party=party, purpose=purpose, now=now, **signature.cleaned_data)
            except DomainError as error:
                add_domain_error(signature, error)
            else:
                messages.success(request, _("The wallet is proven. It can be used after its cooling-down time."))
                return redirect("billing_withdrawals")
        return _page(request, signature=signature)
    asked = WalletForm(request.POST)
    if asked.is_valid():
        try:
            address = asked.cleaned_data["address"]
            challenge = services.destination_challenge(party=party, purpose=purpose, address=address, now=now)
        except DomainError as error:
            add_domain_error(asked, error)
        else:
            ready = SignatureForm(initial={"address": challenge.address})
            return _page(request, signature=ready, text=challenge.text)
    return _page(request, asked=asked)


@login_required
@require_POST
def withdrawal_cancel(request: PersonRequest, payout_id: UUID) -> HttpResponse:
    party, now = party_of(request.user), clock.now()
    try:
        services.withdrawal_cancel(party=party, payout_id=payout_id, actor=request.user, now=now)
    except NotFound as error:
        raise Http404 from error
    except DomainError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, _("The withdrawal is cancelled; all of it is back on your balance."))
    return redirect("billing_withdrawals")


def _page(
    request: PersonRequest,
    *,
    form: WithdrawalForm | None = None,
    asked: WalletForm | None = None,
    signature: SignatureForm | None = None,
    text: str = "",
) -> HttpResponse:
    party = party_of(request.user)
    try:
        rows, cursor = payouts_page(party, cursor=request.GET.get("cursor", ""), withdrawals=True)
    except Invalid as error:
        raise Http404 from error
    context = {
        "terms": withdrawal_terms(party, clock.now()),
        "form": form or WithdrawalForm(),
        "wallet": asked or WalletForm(),
        "signature": signature,
        "challenge": text,
        "withdrawals": rows,
        "next_url": f"?cursor={cursor}" if cursor else "",
        "previous_url": request.path if request.GET.get("cursor") else "",
    }
    refused = any(each is not None and each.errors for each in (form, asked, signature))
    return render(request, "billing/withdrawals.html", context, status=400 if refused else 200)
