"""A customer disputes what an attempt has cost."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from accounts.http import PersonRequest
from accounts.selectors import party_of
from core import clock
from core.errors import DomainError
from core.forms import add_domain_error
from marketplace.forms import DisputeForm
from marketplace.services import dispute_open
from marketplace.views.jobs import job_mine, job_page


@login_required
@require_POST
def dispute(request: PersonRequest, job_id: UUID, number: int) -> HttpResponse:
    job = job_mine(request, job_id)
    attempt = next((each for each in job.attempts.all() if each.number == number), None)
    if attempt is None:
        raise Http404
    form = DisputeForm(request.POST)
    if form.is_valid():
        try:
            dispute_open(
                attempt=attempt,
                customer=party_of(request.user),
                actor=request.user,
                now=clock.now(),
                **form.cleaned_data,
            )
        except DomainError as error:
            add_domain_error(form, error)
        else:
            messages.success(request, _("The charge is disputed. We write to you when it is decided."))
            return redirect(f"/jobs/{job.pk}/#disputes")
    return job_page(request, job, refused=form, number=number)
