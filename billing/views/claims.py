"""/billing/claims/: a payment that named nobody is claimed by who sent it: with the wallet's signature, or with evidence."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.http import PersonRequest
from accounts.selectors import party_of
from billing import services
from billing.forms import EvidenceClaimForm, ProofForm, WalletClaimForm
from billing.models import DepositClaim
from billing.models.claim import RIVALS_WAIT
from billing.selectors.deposits import claim_of, claims_of
from core import clock
from core.errors import DomainError
from core.forms import add_domain_error


@login_required
@require_safe
def claims(request: PersonRequest) -> HttpResponse:
    return _page(request)


@login_required
@require_POST
def claim_wallet(request: PersonRequest) -> HttpResponse:
    """The first step: transaction and wallet get a text to sign."""
    form = WalletClaimForm(request.POST)
    if form.is_valid():
        try:
            claim = services.claim_wallet_open(
                party=party_of(request.user),
                signature=form.cleaned_data["transaction"],
                address=form.cleaned_data["address"],
                now=clock.now(),
            )
        except DomainError as error:
            add_domain_error(form, error)
        else:
            return _page(request, claim=claim, proof=ProofForm())
    return _page(request, wallet=form)


@login_required
@require_POST
def claim_prove(request: PersonRequest, claim_id: UUID) -> HttpResponse:
    """The second step: the wallet's signature. Right or wrong, the text is used up."""
    party, form = party_of(request.user), ProofForm(request.POST)
    if claim_of(party, claim_id) is None:
        raise Http404
    if form.is_valid():
        try:
            services.claim_wallet_prove(
                party=party, claim_id=claim_id, proof=form.cleaned_data["proof"], now=clock.now()
            )
        except DomainError as error:
            add_domain_error(form, error)
        else:
            messages.success(request, _("The payment is yours, and on your balance."))
            return redirect("billing_home")
    return _page(request, proof=form)


@login_required
@require_POST
def claim_evidence(request: PersonRequest) -> HttpResponse:
    form = EvidenceClaimForm(request.POST)
    if form.is_valid():
        try:
            services.claim_evidence_open(
                party=party_of(request.user),
                signature=form.cleaned_data["transaction"],
                evidence=form.cleaned_data["evidence"],
                now=clock.now(),
            )
        except DomainError as error:
            add_domain_error(form, error)
        else:
            messages.success(request, _("Thank you. Two of our people decide about it in a week at the earliest."))
            return redirect("billing_claims")
    return _page(request, evidence=form)


def _page(
    request: PersonRequest,
    *,
    wallet: WalletClaimForm | None = None,
    evidence: EvidenceClaimForm | None = None,
    claim: DepositClaim | None = None,
    proof: ProofForm | None = None,
) -> HttpResponse:
    context = {
        "claims": claims_of(party_of(request.user)),
        "wallet": wallet or WalletClaimForm(),
        "evidence": evidence or EvidenceClaimForm(),
        "claim": claim,
        "proof": proof,
        "days": RIVALS_WAIT.days,
    }
    refused = any(form is not None and form.errors for form in (wallet, evidence, proof))
    return render(request, "billing/claims.html", context, status=400 if refused else 200)
