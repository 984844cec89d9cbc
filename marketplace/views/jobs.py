"""A customer's jobs: list, launch, one job with its live log. What is not theirs is 404."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.http import PersonRequest
from accounts.selectors import party_of
from billing.selectors import balance_of
from core import clock
from core.errors import DomainError, Invalid, NotFound
from core.forms import add_domain_error
from core.money import SECONDS_PER_HOUR, parse_usdc
from marketplace import outcomes, pricing, services
from marketplace.forms import TEMPLATES, DisputeForm, JobForm, RerunForm, job_initial
from marketplace.models import Attempt, Job, Listing
from marketplace.selectors import (
    cost_of,
    dispute_offers,
    job_of,
    jobs_of,
    listing_of,
    log_read,
    price_suggestion,
    reason_words,
    timeline_of,
)
from marketplace.selectors.jobs import LOG_PAGE_BYTES
from providers.models import GpuModel

STOP_POLLING = 286
"""The status with which htmx stops asking."""


@login_required
@require_safe
def jobs(request: PersonRequest) -> HttpResponse:
    now = clock.now()
    try:
        rows, cursor = jobs_of(customer=party_of(request.user), cursor=request.GET.get("cursor", ""))
    except Invalid:
        raise Http404 from None
    context = {
        "jobs": [(job, _last(job), cost_of(job, now=now), reason_words(job)) for job in rows],
        "next_url": f"?cursor={cursor}" if cursor else "",
    }
    return render(request, "marketplace/jobs.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def job_new(request: PersonRequest) -> HttpResponse:
    """Launch by criteria, or on the listing named in the address (``?listing=``)."""
    party, now = party_of(request.user), clock.now()
    listing = _chosen(request)
    if request.method == "POST":
        form = JobForm(request.POST, listing=listing)
        if form.is_valid():
            try:
                job = services.job_submit(customer=party, spec=form.spec(), actor=request.user, now=now)
            except DomainError as error:
                add_domain_error(form, error)
            else:
                messages.success(request, _("The job is queued."))
                return redirect("marketplace_job", job_id=job.pk)
    else:
        form = JobForm(listing=listing, initial=job_initial(listing=listing, template=request.GET.get("template", "")))
    context = {
        "form": form,
        "listing": listing,
        "templates": TEMPLATES.items(),
        "balance": balance_of(party),
        "estimate": estimate_of(request.POST if request.method == "POST" else _values(form)),
    }
    return render(request, "marketplace/job_new.html", context)


def _chosen(request: HttpRequest) -> Listing | None:
    text = request.GET.get("listing", "")
    if not text:
        return None
    try:
        return listing_of(UUID(text))
    except (ValueError, NotFound):
        raise Http404 from None


def _values(form: JobForm) -> dict[str, Any]:
    return {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}


@login_required
@require_safe
def job_estimate(request: PersonRequest) -> HttpResponse:
    """A piece of the launch page: what the values typed so far would cost."""
    context = {"estimate": estimate_of(request.GET.dict()), "balance": balance_of(party_of(request.user))}
    return render(request, "marketplace/_estimate.html", context)


def estimate_of(values: Any) -> dict[str, Any]:
    """{held, most, suggestion} in micro-USDC; None while a value is missing or makes no sense."""
    found: dict[str, Any] = {"held_micro": None, "most_micro": None, "suggestion": None}
    model = GpuModel.objects.filter(slug=str(values.get("gpu_model") or "")).first()
    if model is not None:
        found["suggestion"] = price_suggestion(gpu_model_id=model.pk, region=str(values.get("region") or ""))
    try:
        rate = parse_usdc(str(values.get("max_rate") or ""))
        gpus = int(values.get("gpu_count") or 0)
        seconds = int(Decimal(str(values.get("time_limit_s") or 0)) * SECONDS_PER_HOUR)
    except (ArithmeticError, ValueError, DomainError):
        return found
    if 0 < rate <= pricing.RATE_MAX_MICRO and 0 < gpus <= 1000 and 0 < seconds < 10**9:
        found["held_micro"] = pricing.hold_micro(rate_micro=rate, gpus=gpus)
        found["most_micro"] = pricing.hold_micro(rate_micro=rate, gpus=gpus, seconds=seconds)
    return found


def job_mine(request: PersonRequest, job_id: UUID) -> Job:
    try:
        return job_of(customer=party_of(request.user), job_id=job_id)
    except NotFound:
        raise Http404 from None


def _last(job: Job) -> Attempt | None:
    attempts = list(job.attempts.all())
    return attempts[-1] if attempts else None


def _live(job: Job) -> dict[str, Any]:
    """What changes while one looks: status, cost, the end of the log."""
    attempt = _last(job)
    log = log_read(attempt, offset=max(0, attempt.log_bytes - LOG_PAGE_BYTES)) if attempt else None
    return {
        "job": job,
        "attempt": attempt,
        "cost": cost_of(job, now=clock.now()),
        "log": log,
        "reason": reason_words(job),
        "waiting": outcomes.WAITING.get(job.waiting, outcomes.WAITING[""]) if job.status == "queued" else "",
        "stopping": not job.ended and job.cancel_requested_at is not None,
        "timeline": timeline_of(job),
    }


@login_required
@require_safe
def job(request: PersonRequest, job_id: UUID) -> HttpResponse:
    return job_page(request, job_mine(request, job_id))


def job_page(
    request: PersonRequest, row: Job, *, refused: DisputeForm | None = None, number: int | None = None
) -> HttpResponse:
    """The page of a job of theirs. ``refused``: a dispute of the attempt ``number`` that could not be taken."""
    attempts = [(attempt, reason_words(attempt)) for attempt in row.attempts.all()]
    offers = dispute_offers(row, now=clock.now())
    context = {
        **_live(row),
        "attempts": attempts,
        "command": row.command,
        "offers": [
            (each, refused if refused and each.attempt.number == number else _dispute_form(each.attempt))
            for each in offers
        ],
        "refused": number if refused else None,
    }
    return render(request, "marketplace/job.html", context, status=400 if refused else 200)


def _dispute_form(attempt: Attempt) -> DisputeForm:
    """One per attempt: their fields need ids of their own."""
    return DisputeForm(auto_id=f"id_{attempt.number}_%s")


@login_required
@require_safe
def job_live(request: PersonRequest, job_id: UUID) -> HttpResponse:
    """The part of the page that is fetched again every few seconds; the answer to an ended job ends the asking."""
    row = job_mine(request, job_id)
    attempt = _last(row)
    done = row.ended and (attempt is None or attempt.log_final or attempt.rental.settled_at is not None)
    return render(request, "marketplace/_live.html", _live(row), status=STOP_POLLING if done else 200)


@login_required
@require_safe
def job_log(request: PersonRequest, job_id: UUID) -> HttpResponse:
    """The last attempt's whole log as plain text (``?attempt=N`` for an earlier one)."""
    row = job_mine(request, job_id)
    number = request.GET.get("attempt", "")
    wanted = [each for each in row.attempts.all() if not number or str(each.number) == number]
    if number and not wanted:
        raise Http404
    text = log_read(wanted[-1], limit=2**40).text if wanted else ""
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    return response


@login_required
@require_POST
def job_cancel(request: PersonRequest, job_id: UUID) -> HttpResponse:
    row = services.job_cancel(job=job_mine(request, job_id), actor=request.user, now=clock.now())
    messages.success(
        request,
        _("The job is cancelled.") if row.ended else _("The job is being stopped; you pay nothing from now on."),
    )
    return redirect("marketplace_job", job_id=job_id)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def job_rerun(request: PersonRequest, job_id: UUID) -> HttpResponse:
    """Run it again; one that had secrets or a private image asks for them first."""
    row = job_mine(request, job_id)
    form = RerunForm(request.POST if request.method == "POST" else None, job=row)
    if request.method != "POST" or not form.is_valid():
        return render(request, "marketplace/job_rerun.html", {"job": row, "form": form})
    try:
        again = services.job_rerun(
            job=row,
            actor=request.user,
            now=clock.now(),
            **form.cleaned_data,
        )
    except DomainError as error:
        if form.fields:
            add_domain_error(form, error)
            return render(request, "marketplace/job_rerun.html", {"job": row, "form": form})
        messages.error(request, error.message)
        return redirect("marketplace_job", job_id=job_id)
    messages.success(request, _("The same job is queued again."))
    return redirect("marketplace_job", job_id=again.pk)
